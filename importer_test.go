package podwright_test

import (
	"archive/zip"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/podwright/podwright"
)

// The cost of podworkers for its importer, in modules. Raise no limit without a reason here.
const (
	// suppliers are the modules that supply a package, the importer's own included.
	suppliers = 21
	// allModules are the modules of go list -m all, besides the importer.
	allModules = 78
	// extraBytes are the bytes of the README's program beyond a program with only the pod types.
	extraBytes = 300_000
)

// A program outside of this repository gets the library as a tagged version. A replace directive
// would hide faults in go.mod and files that the module's archive lacks.
func TestImporter(t *testing.T) {
	if runtime.GOOS != "linux" {
		t.Skip("the limits are for Linux")
	}
	m := newOutside(t, moduleCache(t))
	m.require(module)
	m.write("example_test.go", read(t, "example_test.go"))
	m.write("agent/main.go", strings.NewReplacer("package podwright_test", "package main", "func Example()", "func main()").Replace(read(t, "example_test.go")))
	m.write("types/main.go", "package main\n\nimport v1 \"k8s.io/api/core/v1\"\n\nfunc main() { println((&v1.Pod{}).String()) }\n")

	require.Contains(t, m.run("test", "-v", "."), "--- PASS: Example ")
	m.run("build", "-ldflags=-s -w", "-o", "bin/", "./agent", "./types")
	require.LessOrEqual(t, m.size("bin/agent")-m.size("bin/types"), int64(extraBytes))
	supply := strings.Fields(m.run("list", "-deps", "-f", "{{with .Module}}{{.Path}}{{end}}", "./agent"))
	slices.Sort(supply)
	supply = slices.Compact(supply)
	require.LessOrEqual(t, len(supply), suppliers, "%v", supply)
	require.LessOrEqual(t, strings.Count(m.run("list", "-m", "-e", "all"), "\n")-1, allModules) // without the importer

	if testing.Short() {
		return
	}
	// The archives have the files of all packages, and their go.mod files have versions that exist.
	m.run("build", module+"/...")
	m.require(module + "/cri/streams")
	m.run("build", module+"/cri/streams")
}

// outside is a module outside of this repository.
type outside struct {
	t   *testing.T
	dir string
	env []string
}

// newOutside returns a module that downloads this one from a proxy. Other modules come from cache.
func newOutside(t *testing.T, cache string) *outside {
	proxy, own := t.TempDir(), t.TempDir()
	for _, folder := range []string{".", "cri/streams"} {
		publish(t, folder, proxy)
	}
	link(t, cache, own, "cache/download/github.com/podwright", "github.com/podwright")
	return &outside{t, t.TempDir(), append(os.Environ(),
		"GOMODCACHE="+own, "GOPROXY=file://"+filepath.ToSlash(proxy), "GONOPROXY=none", "GOPRIVATE=none", "GOSUMDB=off", "GOWORK=off",
		"GOFLAGS="+os.Getenv("GOFLAGS")+" -mod=mod -modcacherw -trimpath")} // trimpath: the build cache serves all folders
}

func (m *outside) write(name, text string) {
	file := filepath.Join(m.dir, name)
	require.NoError(m.t, os.MkdirAll(filepath.Dir(file), 0o755))
	require.NoError(m.t, os.WriteFile(file, []byte(text), 0o644))
}

// require makes a module the only requirement.
func (m *outside) require(name string) {
	m.write("go.mod", "module example.com/importer\n\ngo 1.26.0\n\nrequire "+name+" "+podwright.Version+"\n")
}

// run runs the go command in the module and returns its output.
func (m *outside) run(args ...string) string {
	m.t.Helper()
	cmd := exec.CommandContext(m.t.Context(), "go", args...)
	cmd.Dir, cmd.Env = m.dir, m.env
	var stderr strings.Builder
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	require.NoError(m.t, err, "go %v: %s%s", args, out, &stderr)
	return string(out)
}

func (m *outside) size(name string) int64 {
	info, err := os.Stat(filepath.Join(m.dir, name))
	require.NoError(m.t, err)
	return info.Size()
}

// publish adds the module in a folder to a proxy, as its release does. The archive of a module lacks
// the modules below it, vendor folders and files that are not regular.
func publish(t *testing.T, folder, proxy string) {
	name, version := strings.TrimSuffix(module+"/"+folder, "/."), podwright.Version
	dir := filepath.Join(proxy, name, "@v")
	require.NoError(t, os.MkdirAll(dir, 0o755))
	put := func(file, text string) {
		require.NoError(t, os.WriteFile(filepath.Join(dir, file), []byte(text), 0o644))
	}
	put("list", version+"\n")
	put(version+".info", fmt.Sprintf(`{"Version":%q}`, version))
	put(version+".mod", read(t, filepath.Join(folder, "go.mod")))

	file, err := os.Create(filepath.Join(dir, version+".zip"))
	require.NoError(t, err)
	archive := zip.NewWriter(file)
	require.NoError(t, filepath.WalkDir(folder, func(path string, d fs.DirEntry, err error) error {
		switch _, noModule := os.Stat(filepath.Join(path, "go.mod")); {
		case err != nil:
			return err
		case d.IsDir() && path != folder && (noModule == nil || d.Name() == ".git" || d.Name() == "vendor"):
			return fs.SkipDir
		case !d.Type().IsRegular():
			return nil
		}
		relative, err := filepath.Rel(folder, path)
		if err != nil {
			return err
		}
		to, err := archive.CreateHeader(&zip.FileHeader{Name: name + "@" + version + "/" + filepath.ToSlash(relative)})
		if err == nil {
			_, err = to.Write([]byte(read(t, path)))
		}
		return err
	}))
	require.NoError(t, archive.Close())
	require.NoError(t, file.Close())
}

// link fills a folder with links to the folders of a module cache, which may be read-only. It leaves
// out some of them, so that the go command creates them in the new folder.
func link(t *testing.T, from, to string, except ...string) {
	entries, err := os.ReadDir(from)
	require.NoError(t, err)
	for _, e := range entries {
		var below []string
		for _, path := range except {
			if first, rest, _ := strings.Cut(path, "/"); first == e.Name() {
				below = append(below, rest)
			}
		}
		source, target := filepath.Join(from, e.Name()), filepath.Join(to, e.Name())
		switch {
		case !e.IsDir() || slices.Contains(below, ""):
		case below == nil:
			require.NoError(t, os.Symlink(source, target))
		default:
			require.NoError(t, os.Mkdir(target, 0o755))
			link(t, source, target, below...)
		}
	}
}
