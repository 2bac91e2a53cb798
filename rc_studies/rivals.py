"""The rivals of the region count in words, by the column that a record has them in.

Without the boundary thickness of the first round, which counted places where a third class wins.
"""

RIVALS = {
    "train_loss": "training loss",
    "distance_from_init": "distance from initialisation",
    "margin": "output margin",
    "sharpness": "sharpness",
    "log_spectral_product": "spectral norms",
    "input_gradient": "input gradient",
    "num_parameters": "parameters",
    "log_path_norm": "path norm",
    "jacobian_norm": "Jacobian norm",
    "mixup_accuracy": "mixup accuracy",
    "gi_score_inter": "Gi-score, between classes",
    "gi_score_intra": "Gi-score, within a class",
    "pal_score_inter": "Pal-score, between classes",
    "pal_score_intra": "Pal-score, within a class",
    "linear_pieces": "linear pieces",
    "local_complexity": "local complexity",
    # Of the second round alone.
    "margin_over_gradient": "margin over gradient",
    "boundary_thickness_own": "boundary thickness",
    "disagreement": "disagreement of seeds",
}
