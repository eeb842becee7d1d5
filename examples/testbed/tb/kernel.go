package tb

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"testing"
)

// KeepKernelSettings has what the upstream kubelet changes of the kernel changed back when
// the test ends.
func KeepKernelSettings(t testing.TB) {
	t.Helper()
	for _, name := range []string{"vm/overcommit_memory", "vm/panic_on_oom", "kernel/panic", "kernel/panic_on_oops", "kernel/keys/root_maxkeys", "kernel/keys/root_maxbytes"} {
		file := filepath.Join("/proc/sys", name)
		text, err := os.ReadFile(file)
		if errors.Is(err, fs.ErrNotExist) {
			continue
		}
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() {
			if err := os.WriteFile(file, text, 0o644); err != nil {
				t.Error(err)
			}
		})
	}
}
