"""Local copies of collections, kept up to date by watches."""
