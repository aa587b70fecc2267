module github.com/soloist-dev/soloist/server

go 1.26.0

require github.com/soloist-dev/soloist v0.0.0

require github.com/google/jsonschema-go v0.4.3

replace github.com/soloist-dev/soloist => ../
