package hostpath_test

import (
	"fmt"
	"net"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"
	v1 "k8s.io/api/core/v1"

	"github.com/podwright/podwright/volume/hostpath"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func source(path string, kind v1.HostPathType) *v1.HostPathVolumeSource {
	return &v1.HostPathVolumeSource{Path: path, Type: &kind}
}

// V14: type File with the path of a folder is an error; a missing DirectoryOrCreate is created
// with 0755.
func TestPrepare(t *testing.T) {
	dir := t.TempDir()
	file, socket := filepath.Join(dir, "file"), filepath.Join(dir, "s")
	require.NoError(t, os.WriteFile(file, nil, 0o600))
	l, err := net.Listen("unix", socket)
	require.NoError(t, err)
	defer l.Close()

	for _, tc := range []struct {
		path string
		kind v1.HostPathType
		want error
	}{
		{dir, v1.HostPathUnset, nil},
		{filepath.Join(dir, "missing"), v1.HostPathUnset, nil},
		{dir, v1.HostPathDirectory, nil},
		{dir, v1.HostPathFile, hostpath.ErrType},
		{file, v1.HostPathFile, nil},
		{file, v1.HostPathDirectory, hostpath.ErrType},
		{file, v1.HostPathFileOrCreate, nil},
		{file, v1.HostPathDirectoryOrCreate, hostpath.ErrType},
		{filepath.Join(dir, "missing"), v1.HostPathDirectory, os.ErrNotExist},
		{filepath.Join(dir, "missing", "f"), v1.HostPathFileOrCreate, os.ErrNotExist},
		{socket, v1.HostPathSocket, nil},
		{file, v1.HostPathSocket, hostpath.ErrType},
		{"/dev/null", v1.HostPathCharDev, nil},
		{"/dev/null", v1.HostPathBlockDev, hostpath.ErrType},
	} {
		t.Run(fmt.Sprintf("%s %s", filepath.Base(tc.path), tc.kind), func(t *testing.T) {
			got, err := hostpath.Prepare(source(tc.path, tc.kind))
			require.ErrorIs(t, err, tc.want)
			if tc.want == nil {
				require.Equal(t, tc.path, got)
			}
		})
	}
}

func TestPrepareCreates(t *testing.T) {
	dir := t.TempDir()
	folder := filepath.Join(dir, "a", "b")
	_, err := hostpath.Prepare(source(folder, v1.HostPathDirectoryOrCreate))
	require.NoError(t, err)
	info, err := os.Stat(folder)
	require.NoError(t, err)
	require.Equal(t, os.FileMode(0o755), info.Mode().Perm())

	file := filepath.Join(folder, "f")
	_, err = hostpath.Prepare(source(file, v1.HostPathFileOrCreate))
	require.NoError(t, err)
	info, err = os.Stat(file)
	require.NoError(t, err)
	require.Equal(t, os.FileMode(0o644), info.Mode().Perm())
}

func TestValidate(t *testing.T) {
	for path, want := range map[string]string{
		"":        "path: required",
		"a/b":     "not absolute",
		"/a/../b": "contains",
	} {
		require.ErrorContains(t, hostpath.Validate(&v1.HostPathVolumeSource{Path: path}), want)
	}
	require.ErrorContains(t, hostpath.Validate(source("/a", "Folder")), "type: ")
	require.NoError(t, hostpath.Validate(&v1.HostPathVolumeSource{Path: "/a..b"}))
}

func ExamplePrepare() {
	kind := v1.HostPathDirectory
	path, err := hostpath.Prepare(&v1.HostPathVolumeSource{Path: "/proc/", Type: &kind})
	fmt.Println(path, err)
	// Output: /proc <nil>
}
