"""What declarations and policies ask for."""
