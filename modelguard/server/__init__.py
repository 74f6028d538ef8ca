"""The language server: findings in an editor, while a file is written."""
