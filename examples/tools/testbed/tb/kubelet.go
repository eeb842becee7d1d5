package tb

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"sync"
	"testing"

	"github.com/podwright/podwright/examples/tools/testbed/internal/env"
)

// Kubelet is the program of examples/kubelet. testbed -all builds it once for all test programs.
// Otherwise the first call of Path builds it, and the Run of Tests removes it.
type Kubelet struct {
	Race bool // with the race detector

	once sync.Once
	dir  string // "" if the testbed owns the program
	path string
	err  error
}

// Path returns the path of the program. It is safe for concurrent use.
func (k *Kubelet) Path(t testing.TB) string {
	t.Helper()
	k.once.Do(func() { k.err = k.find() })
	if k.err != nil {
		t.Fatalf("build the kubelet: %v", k.err)
	}
	return k.path
}

func (k *Kubelet) find() error {
	if built := os.Getenv(env.Programs); built != "" {
		k.path = filepath.Join(built, KubeletName(k.Race))
		return nil
	}
	dir, err := os.MkdirTemp("", "kubelet-")
	if err != nil {
		return err
	}
	k.dir, k.path = dir, filepath.Join(dir, "kubelet")
	if err := os.Chmod(dir, 0o755); err != nil { // tests run it as other users
		return err
	}
	out, err := exec.Command("go", "build", fmt.Sprintf("-race=%t", k.Race), "-o", k.path, "github.com/podwright/podwright/examples/kubelet").CombinedOutput()
	if err != nil {
		return fmt.Errorf("%w: %s", err, out)
	}
	return nil
}

// Tests wraps tests for goleak.VerifyTestMain. Its Run removes a program that Path has built.
func (k *Kubelet) Tests(m *testing.M) interface{ Run() int } { return tests{m, k} }

type tests struct {
	*testing.M
	kubelet *Kubelet
}

func (t tests) Run() int {
	code := t.M.Run()
	if err := os.RemoveAll(t.kubelet.dir); err != nil {
		fmt.Fprintln(os.Stderr, err)
		return max(code, 1)
	}
	return code
}

// KubeletName is the name of the built program in the testbed's folder of programs.
func KubeletName(race bool) string {
	if race {
		return "kubelet-race"
	}
	return "kubelet"
}
