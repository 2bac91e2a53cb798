"""The theorems of the three papers and what they say of trends: one entry a statement, for `published_claims`."""

BOUNDS = (  # id, source, claim, ratio that is at most 1 if the claim holds.
    (
        "theory/theorem-5",
        "v1 Theorem 5",
        "at most k regions on every line bound the VC dimension by k",
        "shattered points / k",
    ),
    (
        "theory/theorem-5-gap",
        "v1 Theorem 5",
        "at most k regions on every line bound the expected gap by O(√(k / n))",
        "largest deviation of sample mean and expectation / √(k / n), with any constant",
    ),
    (
        "theory/theorem-6",
        "v1 Theorem 6, v3 Theorem 6.3",
        "at the edge of stability the mean count on training pairs is O(N / (r² η))",
        "mean count / (2 N λ_max / r² + 2), its form without η",
    ),
    (
        "theory/lemma-7",
        "v1 Lemma 7, v3 Lemma 6.4",
        "a segment has at most two more regions than its ends have active neurons",
        "R(x_a, x_b) / (N(x_a) + N(x_b) + 2)",
    ),
    (
        "theory/lemma-8",
        "v1 Lemma 8, v3 Lemma 6.5",
        "active neurons bound the sharpness from below",
        "(r² / N²) Σ N(x_i) / λ_max",
    ),
    (
        "safran/theorem-2.3",
        "Safran Theorem 2.3",
        "a wide network learns the teacher and has few linear regions",
        "linear regions / (32 r + 67)",
    ),
    (
        "safran/theorem-3.1",
        "Safran Theorem 3.1",
        "gradient flow on a wide network brings the training loss down to 1 / (2 n)",
        "(1 - δ) / share of students whose loss gets there",
    ),
    (
        "safran/theorem-3.2",
        "Safran Theorem 3.2",
        "width α r leaves a population loss of (1 - 0.75 α) / 4 on one initialization in four at least",
        "0.25 / share of initializations that no training brings below that loss",
    ),
    (
        "safran/theorem-4.2",
        "Safran Theorem 4.2",
        "once the loss is under 1 / n the limit has at most 32 r + 67 linear regions",
        "linear regions / (32 r + 67)",
    ),
    (
        "safran/corollary-5.1",
        "Safran Corollary 5.1",
        "that limit errs on at most a share ε of the population",
        "population error / ε",
    ),
    (
        "safran/example-1",
        "Safran Example 1",
        "gradient flow can converge to a point that does not maximize the margin",
        "squared norm of a better solution / squared norm of the limit",
    ),
    (
        "loukas/lemma-1",
        "Loukas Lemma 1",
        "a step of the first bias bounds the Lipschitz constant at its sample, from both sides",
        "largest ratio over both sides",
    ),
    (
        "loukas/lemma-3",
        "Loukas Lemma 3",
        "after long training with dropout λ_steady bounds the Lipschitz constant",
        "largest gradient norm / λ_steady",
    ),
    (
        "loukas/theorem-1",
        "Loukas Theorem 1",
        "the trajectory of the first bias bounds the Lipschitz constant at the data, from both sides",
        "largest ratio over both sides",
    ),
    (
        "loukas/theorem-2",
        "Loukas Theorem 2",
        "activations of training points bound the Lipschitz constant of empty regions",
        "Lipschitz constant / basis pursuit bound",
    ),
    (
        "loukas/theorem-3",
        "Loukas Theorem 3",
        "steady learners with dropout generalize",
        "generalization error / covering bound",
    ),
    (
        "loukas/corollary-1",
        "Loukas Corollary 1",
        "a (τ, φ)-steady learner has Lipschitz constant at most β φ at the data",
        "iterations at which a training point breaks the bound / what the proof allows",
    ),
    (
        "loukas/corollary-2",
        "Loukas Corollary 2",
        "the bias of a complex network varies at least so much",
        "lower bound / variance of the first bias",
    ),
    (
        "loukas/corollary-3",
        "Loukas Corollary 3",
        "the bias moves at most so far from its initialization",
        "distance from initialization / bound",
    ),
)
TRENDS = (  # id, source, claim, quantity; all of them positive.
    (
        "loukas/task-1",
        "Loukas Fig 2, Task 1",
        "the bias travels further for a sinusoid of higher frequency",
        "rank correlation of trajectory length and frequency",
    ),
    (
        "loukas/task-2",
        "Loukas Fig 2, Task 2",
        "the bias travels further with more corrupted labels",
        "rank correlation of trajectory length and label corruption",
    ),
    (
        "loukas/variance",
        "Loukas Fig 3a, 3c",
        "the bias varies more near convergence for a more complex task",
        "rank correlation of variance over the last 10 epochs and complexity",
    ),
    (
        "loukas/distance",
        "Loukas Fig 3b",
        "with a squared loss the bias ends further from its initialization for a higher frequency",
        "rank correlation of distance from initialization and frequency",
    ),
    (
        "loukas/a4",
        "Loukas App. A.4, Fig 7",
        "the whole trajectory grows with the complexity of the task",
        "rank correlation of total trajectory length and complexity",
    ),
    (
        "loukas/a5",
        "Loukas App. A.5, Fig 8",
        "on 100 MNIST images a class an MLP has a longer trajectory than a CNN",
        "log ratio of the trajectory lengths, MLP over CNN",
    ),
    (
        "loukas/a6",
        "Loukas App. A.6, Fig 9",
        "the trajectory is longer for the higher frequency at batch sizes 16 and 32 as well",
        "log ratio of the trajectory lengths, frequency 0.75 over 0.25",
    ),
    (
        "loukas/a7",
        "Loukas App. A.7, Fig 10",
        "the trajectories of the first three layers' biases follow the complexity",
        "rank correlation of trajectory length and frequency, first three layers",
    ),
)
