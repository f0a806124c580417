"""What a refresh is: one function a stage, the lease and the publication."""
