package content

import (
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// versions are what the process that is killed writes in turn.
func versions(i int) Payload {
	text := strings.Repeat(fmt.Sprint(i%2), 16<<10)
	if i%2 == 0 {
		return files("a", text, "b/c", text, "even", text)
	}
	return files("a", text, "b", text, "odd/x", text)
}

// TestKilledProcess is the process that is killed.
func TestKilledProcess(t *testing.T) {
	dir := os.Getenv("PODWRIGHT_CONTENT_KILLED")
	if dir == "" {
		t.Skip("part of TestKilled")
	}
	for i, begun := 0, time.Now(); time.Since(begun) < 30*time.Second; i++ {
		_, err := Write(dir, versions(i), WriteOptions{})
		require.NoError(t, err)
		if i == 0 {
			require.NoError(t, os.WriteFile(dir+".begun", nil, 0o600))
		}
	}
}

// kill -9 at any moment: one of the versions is there, whole, and the next Write makes
// all of it good.
func TestKilled(t *testing.T) {
	self, err := os.Executable()
	require.NoError(t, err)
	base := inMemory(t)
	for i := range 25 {
		dir := filepath.Join(base, fmt.Sprint(i))
		require.NoError(t, os.Mkdir(dir, 0o755))
		cmd := exec.Command(self, "-test.run=^TestKilledProcess$")
		cmd.Env = append(os.Environ(), "PODWRIGHT_CONTENT_KILLED="+dir)
		cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
		require.NoError(t, cmd.Start())
		require.Eventually(t, func() bool { _, err := os.Stat(dir + ".begun"); return err == nil }, 30*time.Second, time.Millisecond)
		time.Sleep(rand.N(10 * time.Millisecond))
		require.NoError(t, cmd.Process.Kill())
		require.Error(t, cmd.Wait())
		got := seen(t, dir)
		require.Contains(t, []Payload{versions(0), versions(1)}, got)
		write(t, dir, versions(i))
	}
}
