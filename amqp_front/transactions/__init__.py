"""The class tx: what a transaction keeps, how its commit is planned and carried out."""
