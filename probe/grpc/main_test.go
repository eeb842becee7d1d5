package grpc

import (
	"os"
	"testing"

	"go.uber.org/goleak"
)

// TestMain sets a proxy before the environment is first read, which happens once per process.
func TestMain(m *testing.M) {
	for _, name := range []string{"HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY"} {
		if err := os.Setenv(name, "http://proxy.example:3128"); err != nil {
			panic(err)
		}
	}
	goleak.VerifyTestMain(m)
}
