module github.com/soloist-dev/soloist/internal/proof

go 1.26.0

require (
	github.com/anishathalye/porcupine v1.3.1
	github.com/soloist-dev/soloist v0.0.0
)

replace github.com/soloist-dev/soloist => ../..
