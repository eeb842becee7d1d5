package cluster_test

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"sync"
	"testing"

	"go.uber.org/goleak"
)

// binary is the kubelet, built once and removed with the run.
var binary struct {
	sync.Once
	dir string
	err error
}

// kubeletPath builds the kubelet at the first call.
func kubeletPath(t testing.TB) string {
	t.Helper()
	b := &binary
	b.Do(func() {
		if b.dir, b.err = os.MkdirTemp("", "kubelet-cluster-"); b.err != nil {
			return
		}
		if out, err := exec.Command("go", "build", "-o", b.dir+"/kubelet", "../..").CombinedOutput(); err != nil {
			b.err = fmt.Errorf("%w: %s", err, out)
		}
	})
	if b.err != nil {
		t.Fatalf("build the kubelet: %v", b.err)
	}
	return filepath.Join(b.dir, "kubelet")
}

// withoutBinary removes it after the tests.
type withoutBinary struct{ *testing.M }

func (m withoutBinary) Run() int {
	code := m.M.Run()
	if err := os.RemoveAll(binary.dir); err != nil {
		fmt.Fprintln(os.Stderr, err)
		return max(code, 1)
	}
	return code
}

func TestMain(m *testing.M) { goleak.VerifyTestMain(withoutBinary{m}) }
