package embedded

import (
	"errors"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/podwright/podwright/cri/fake"
)

func TestFindExecutable(t *testing.T) {
	exists := func(path string) error {
		if slices.Contains([]string{"/bin/sh", "/usr/bin/env", "/work/run", "/work/rel/tool"}, path) {
			return nil
		}
		return errors.New("no such file or directory")
	}
	for _, c := range []struct{ name, path, want, err string }{
		{"sh", "/usr/bin:/bin", "/bin/sh", ""},
		{"/bin/sh", "", "/bin/sh", ""},
		{"./run", "/bin", "/work/run", ""},
		{"tool", "/bin:rel", "/work/rel/tool", ""},
		{"run", ":/bin", "/work/run", ""},
		{"run", "/bin", "", "executable file not found in $PATH"},
		{"./none", "/bin", "/work/none", "no such file or directory"},
	} {
		got, err := findExecutable(c.name, c.path, "/work", exists)
		require.Equal(t, c.want, got)
		if c.err == "" {
			require.NoError(t, err)
		} else {
			require.EqualError(t, err, c.err)
		}
	}
}

func TestCommandOf(t *testing.T) {
	any := func(string) error { return nil }
	got, err := commandOf(&fake.Process{Args: []string{"a", "b"}, Env: []string{"X=1"}, Pod: fake.PodIdentity{Hostname: "h"}}, "/bin", "/scratch", any)
	require.NoError(t, err)
	require.Equal(t, hostCommand{
		Path: "/bin/a", Args: []string{"a", "b"}, Dir: "/scratch",
		Env: []string{"X=1", "PATH=/bin", "HOSTNAME=h", "HOME=/scratch"},
	}, got)
	got, err = commandOf(&fake.Process{Args: []string{"a"}, Dir: "/d", Env: []string{"PATH=/p", "HOSTNAME=x", "HOME=/h"}}, "/bin", "/scratch", any)
	require.NoError(t, err)
	require.Equal(t, hostCommand{Path: "/p/a", Args: []string{"a"}, Dir: "/d", Env: []string{"PATH=/p", "HOSTNAME=x", "HOME=/h"}}, got)
	_, err = commandOf(&fake.Process{}, "/bin", "/", any)
	require.ErrorIs(t, err, errNoCommand)
}
