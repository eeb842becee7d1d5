package main

import (
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/fstest"
	"time"

	"github.com/stretchr/testify/require"
)

// smallSources is a module that builds quickly. Its programs print their name.
func smallSources() fstest.MapFS {
	const program = "package main\n\nimport (\"fmt\"; \"os\"; \"path/filepath\")\n\nfunc main() { fmt.Println(filepath.Base(os.Args[0])) }\n"
	return fstest.MapFS{
		"go.mod":             {Data: []byte("module small\n\ngo 1.26.0\n\n// k8s.io/kubernetes v1.2.3\n")},
		"go.sum":             {},
		"components/main.go": {Data: []byte(program)},
		"kubelet/main.go":    {Data: []byte(program)},
	}
}

func smallBuilder(t *testing.T) (*builder, *lines) {
	var out lines
	return &builder{dir: t.TempDir(), sources: smallSources(), report: &reporter{w: &out}}, &out
}

func TestProgramsAreBuiltOnce(t *testing.T) {
	b, out := smallBuilder(t)
	var all sync.WaitGroup
	for _, name := range []string{etcd, apiServer, controllerManager, scheduler, kubectl, kubelet, kubelet} {
		all.Go(func() {
			path, err := b.program(t.Context(), name)
			if err != nil {
				t.Error(err)
				return
			}
			printed, err := exec.CommandContext(t.Context(), path).Output()
			if err != nil || strings.TrimSpace(string(printed)) != name {
				t.Errorf("%s: %q, %v", path, printed, err)
			}
		})
	}
	all.Wait()
	built := slices.DeleteFunc(slices.Clone(*out), func(line string) bool { return strings.HasSuffix(strings.TrimSpace(line), "...") }) // announcements of long steps
	require.Len(t, built, 2, "%v", *out)
	require.Contains(t, built[0], "of Kubernetes v1.2.3")

	_, err := b.program(t.Context(), "kube-proxy")
	require.ErrorContains(t, err, `"kube-proxy"`)
}

func TestKeyDependsOnSources(t *testing.T) {
	b, _ := smallBuilder(t)
	keys := map[string]string{}
	note := func(change string) {
		key, err := b.key("components")
		require.NoError(t, err)
		require.NotContains(t, keys, key, "%s: the same as %s", change, keys[key])
		keys[key] = change
	}
	note("nothing changed")
	for _, file := range []string{"go.mod", "go.sum", "components/main.go"} {
		changed := smallSources()
		changed[file].Data = append(changed[file].Data, "// changed\n"...)
		b.sources = changed
		note(file)
	}
	b.sources = smallSources()
	changed := smallSources()
	changed["kubelet/main.go"].Data = nil
	before, err := b.key("components")
	require.NoError(t, err)
	b.sources = changed
	after, err := b.key("components")
	require.NoError(t, err)
	require.Equal(t, before, after, "another program")
}

func TestFailedBuildLeavesNothing(t *testing.T) {
	b, _ := smallBuilder(t)
	broken := smallSources()
	broken["kubelet/main.go"].Data = []byte("package main\n\nfunc main() { undefined() }\n")
	b.sources = broken
	_, err := b.program(t.Context(), kubelet)
	require.ErrorContains(t, err, "undefined: undefined")
	entries, err := os.ReadDir(b.dir)
	require.NoError(t, err)
	require.Len(t, entries, 1)
	require.Equal(t, "build.lock", entries[0].Name())
}

func TestUnusedBuildsAreRemoved(t *testing.T) {
	b, _ := smallBuilder(t)
	long, recent := filepath.Join(b.dir, "kubelet-long"), filepath.Join(b.dir, "kubelet-recent")
	for dir, age := range map[string]time.Duration{long: keepBuilds + time.Hour, recent: keepBuilds - time.Hour} {
		require.NoError(t, os.Mkdir(dir, 0o755))
		at := time.Now().Add(-age)
		require.NoError(t, os.Chtimes(dir, at, at))
	}
	path, err := b.program(t.Context(), kubelet)
	require.NoError(t, err)
	require.FileExists(t, path)
	require.NoDirExists(t, long)
	require.DirExists(t, recent)

	// A used build is not removed.
	at := time.Now().Add(-2 * keepBuilds)
	require.NoError(t, os.Chtimes(filepath.Dir(path), at, at))
	_, err = b.program(t.Context(), kubelet)
	require.NoError(t, err)
	require.NoError(t, b.removeUnused(""))
	require.FileExists(t, path)
}

func TestEmbeddedSources(t *testing.T) {
	b, err := newBuilder(&reporter{})
	require.NoError(t, err)
	require.Regexp(t, `^v1\.\d+\.\d+$`, b.version())
	for _, pkg := range []string{"components", "kubelet"} {
		_, err := b.key(pkg)
		require.NoError(t, err)
	}
}

func TestGoEnv(t *testing.T) {
	require.Equal(t, []string{"HOME=/root", "GOWORK=off", "GOFLAGS=", "CGO_ENABLED=0"}, goEnv([]string{"GOOS=plan9", "GOFLAGS=-mod=mod", "HOME=/root"}))
}
