package request

import (
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"
	v1 "k8s.io/api/core/v1"

	"github.com/podwright/podwright/volume"
)

// 6.4, fileKeyRef: variables come from a file in a volume and from no file outside of it. The key
// may be optional, but not the file.
func TestFileKey(t *testing.T) {
	h, m := withObjects(t)
	vol := filepath.Join(h.dir, "volume")
	require.NoError(t, os.MkdirAll(filepath.Join(vol, "sub"), 0o755))
	write := func(path, content string) {
		require.NoError(t, os.WriteFile(filepath.Join(vol, path), []byte(content), 0o600))
	}
	write("env", "A='1'\nE= 'x'\n")
	write("sub/env", "A='two\nlines'")
	write("bad", "A=1")
	write("large", strings.Repeat("#\n", maxEnvFile/2+1))
	write("../outside", "A='secret'")
	require.NoError(t, os.Symlink("../outside", filepath.Join(vol, "link")))
	require.NoError(t, os.Symlink("env", filepath.Join(vol, "inside")))
	require.NoError(t, syscall.Mkfifo(filepath.Join(vol, "pipe"), 0o600))
	pod := testPod("a")
	m.SetVolume(pod.UID, "v", volume.Mounted{Path: vol})
	for _, tc := range []struct {
		path, key, want, fails string
		optional               bool
	}{
		{path: "env", key: "A", want: "X=1"},
		{path: "sub/env", key: "A", want: "X=two\nlines"},
		{path: "inside", key: "A", want: "X=1"},
		{path: "env", key: "B", fails: `environment variable key "B" not found in file "env"`},
		{path: "env", key: "E", fails: "not found"},
		{path: "env", key: "B", optional: true},
		{path: "env", key: "E", optional: true},
		{path: "none", key: "A", fails: `file "none" not found in volume "v"`},
		{path: "none", key: "A", optional: true, fails: `file "none" not found in volume "v"`},
		{path: "bad", key: "A", optional: true, fails: "line 1: value must be enclosed in single quotes"},
		{path: "link", key: "A", optional: true, fails: "cannot read"},
		{path: "../outside", key: "A", fails: "cannot read"},
		{path: "/etc/passwd", key: "A", fails: "cannot read"},
		{path: "sub", key: "A", fails: "cannot read"},
		{path: "pipe", key: "A", fails: "cannot read"},
		{path: "large", key: "A", fails: "cannot read"},
	} {
		c := &v1.Container{Env: []v1.EnvVar{from(v1.EnvVarSource{FileKeyRef: &v1.FileKeySelector{VolumeName: "v", Path: tc.path, Key: tc.key, Optional: &tc.optional}})}}
		got, err := h.envOf(pod, c)
		if tc.fails != "" {
			require.ErrorContains(t, err, tc.fails, tc)
			require.NotContains(t, err.Error(), h.dir, "paths of the node are not for users")
			continue
		}
		require.NoError(t, err, tc)
		require.Equal(t, tc.want, strings.Join(got, ";"), tc)
	}
	_, err := h.envOf(pod, &v1.Container{Env: []v1.EnvVar{from(v1.EnvVarSource{FileKeyRef: &v1.FileKeySelector{VolumeName: "none", Path: "env", Key: "A"}})}})
	require.ErrorContains(t, err, `cannot find volume "none"`)
	m.SetVolume(pod.UID, "gone", volume.Mounted{Path: filepath.Join(h.dir, "gone")})
	_, err = h.envOf(pod, &v1.Container{Env: []v1.EnvVar{from(v1.EnvVarSource{FileKeyRef: &v1.FileKeySelector{VolumeName: "gone", Path: "env", Key: "A", Optional: new(true)}})}})
	require.ErrorContains(t, err, `file "env" not found in volume "gone"`)
	_, err = readVolumeFile(vol, "sub")
	require.EqualError(t, err, "not a regular file", "the agent's log has the cause")
}

// Reading a file of a volume never leaks an open file.
func TestVolumeFilesAreClosed(t *testing.T) {
	dir := t.TempDir()
	require.NoError(t, os.WriteFile(filepath.Join(dir, "file"), []byte("A='1'"), 0o600))
	require.NoError(t, os.Mkdir(filepath.Join(dir, "sub"), 0o700))
	content, err := readVolumeFile(dir, "file")
	require.NoError(t, err)
	require.Equal(t, "A='1'", string(content))
	_, err = readVolumeFile(dir, "sub")
	require.Error(t, err)
	open, err := filepath.Glob("/proc/self/fd/*")
	require.NoError(t, err)
	for _, link := range open {
		target, _ := os.Readlink(link)
		require.NotContains(t, target, dir)
	}
}

func TestParseEnvFile(t *testing.T) {
	const file = "# c\n\n  A='1' # after\nB= 'x'\r\nC='two\r\nlines'\nD=''\nE='a#b $X \\n'\n\tA='second'\n"
	for key, want := range map[string]string{"A": "1", "B": "", "C": "two\nlines", "D": "", "E": `a#b $X \n`, "F": "", "": ""} {
		got, err := parseEnvFile(file, key)
		require.NoError(t, err, key)
		require.Equal(t, want, got, key)
	}
	for file, want := range map[string]string{
		"A": "line 1: missing '='", "='x'": "line 1: empty variable name", "\nA ='x'": "line 2: whitespace before '='",
		"A=x": "line 1: value must be enclosed", "A='x'y": "line 1: unexpected content", "A='x\ny\n": "line 2: unclosed single quote at line 1",
		"A='1'\nK='2'\nbad": "",
	} {
		got, err := parseEnvFile(file, "K")
		if want == "" {
			require.NoError(t, err, "what comes after the key does not count")
			require.Equal(t, "2", got)
			continue
		}
		require.ErrorContains(t, err, want, file)
	}
}

// A value that is appended to any file is parsed again.
func FuzzParseEnvFile(f *testing.F) {
	f.Add("KEY='v'", "v")
	f.Add("A='1\n2'\nB= 'x' # c", "two\nlines")
	f.Add("A = '", "#")
	f.Fuzz(func(t *testing.T, file, value string) {
		got, err := parseEnvFile(file, "KEY")
		if err != nil {
			require.Empty(t, got)
		}
		require.NotContains(t, got, "'")
		value = strings.NewReplacer("'", "", "\r", "").Replace(value)
		got, err = parseEnvFile("# first\nKEY='"+value+"' # last\n"+file, "KEY")
		require.NoError(t, err)
		require.Equal(t, value, got)
	})
}
