package tuning_test

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/podwright/podwright/examples/kubelet/tuning"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// folder creates files of all parameters with their required values, except others.
func folder(t testing.TB, others map[string]string) string {
	dir := t.TempDir()
	for _, s := range tuning.Settings() {
		value := s.Value
		if other, ok := others[s.Name]; ok {
			value = other
		}
		file := filepath.Join(dir, strings.ReplaceAll(s.Name, ".", "/"))
		require.NoError(t, os.MkdirAll(filepath.Dir(file), 0o700))
		require.NoError(t, os.WriteFile(file, []byte(value+"\n"), 0o600))
	}
	return dir
}

func TestApply(t *testing.T) {
	dir := folder(t, map[string]string{"vm.overcommit_memory": "0", "kernel.keys.root_maxkeys": "200"})
	var changed []string
	c := tuning.Config{
		Root:     os.DirFS(dir),
		Write:    func(name, value string) error { return os.WriteFile(filepath.Join(dir, name), []byte(value), 0) },
		OnChange: func(s tuning.Setting, from string) { changed = append(changed, s.Name+": "+from+" -> "+s.Value) },
	}
	require.NoError(t, tuning.Apply(c))
	want := []string{"vm.overcommit_memory: 0 -> 1", "kernel.keys.root_maxkeys: 200 -> 1000000"}
	require.Equal(t, want, changed)
	require.NoError(t, tuning.Apply(c))
	require.Equal(t, want, changed, "a second run changes no parameter")
	c.Write, c.OnChange = nil, nil
	require.NoError(t, tuning.Apply(c))
}

// Protected parameters stay unchanged, and one error has all of them with both values.
func TestProtected(t *testing.T) {
	dir := folder(t, map[string]string{"vm.panic_on_oom": "2", "kernel.panic": "0"})
	err := tuning.Apply(tuning.Config{Root: os.DirFS(dir)})
	require.ErrorIs(t, err, tuning.ErrProtected)
	require.ErrorContains(t, err, "vm.panic_on_oom: is 2, must be 0")
	require.ErrorContains(t, err, "kernel.panic: is 0, must be 10")
	require.Equal(t, 2, strings.Count(err.Error(), "\n")+1)
	left, err := os.ReadFile(filepath.Join(dir, "kernel/panic"))
	require.NoError(t, err)
	require.Equal(t, "0\n", string(left))
}

func TestNotPermitted(t *testing.T) {
	dir := folder(t, map[string]string{"kernel.panic": "0"})
	readOnly := errors.New("read-only file system")
	err := tuning.Apply(tuning.Config{Root: os.DirFS(dir), Write: func(string, string) error { return readOnly }})
	require.ErrorIs(t, err, readOnly)
	require.ErrorContains(t, err, "kernel.panic: is 0, must be 10")
	require.NoError(t, os.Remove(filepath.Join(dir, "kernel/keys/root_maxkeys")))
	err = tuning.Apply(tuning.Config{Root: os.DirFS(dir), Write: func(string, string) error { return nil }})
	require.ErrorIs(t, err, fs.ErrNotExist)
	require.ErrorContains(t, err, "kernel.keys.root_maxkeys")
	require.ErrorContains(t, tuning.Apply(tuning.Config{}), "tuning: Config.Root is required")
}

func Example() {
	// Without Write it only checks a machine's parameters.
	err := tuning.Apply(tuning.Config{Root: os.DirFS("/nowhere")})
	fmt.Println(errors.Is(err, fs.ErrNotExist))
	// Output: true
}
