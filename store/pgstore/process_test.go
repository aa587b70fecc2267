package pgstore

const roleVariable = "SOLOIST_PGSTORE_TEST_ROLE"

func play(role string) {}
