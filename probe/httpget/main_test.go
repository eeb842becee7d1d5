package httpget

import (
	"os"
	"testing"

	"go.uber.org/goleak"
)

// TestMain names a proxy before anything reads the environment, which happens once
// in the life of a process.
func TestMain(m *testing.M) {
	for _, name := range []string{"HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY"} {
		if err := os.Setenv(name, "http://proxy.example:3128"); err != nil {
			panic(err)
		}
	}
	goleak.VerifyTestMain(m)
}
