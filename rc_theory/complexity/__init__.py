"""What training reveals of a network's complexity (Loukas, Poiitis and Jegelka), run."""
