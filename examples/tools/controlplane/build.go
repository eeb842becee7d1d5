package main

import (
	"bytes"
	"context"
	"crypto/sha256"
	"embed"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// sources are the sources of the programs, embedded so that any folder can be the working folder.
//
//go:embed go.mod go.sum components/main.go kubelet/main.go
var sources embed.FS

const (
	etcd              = "etcd"
	apiServer         = "kube-apiserver"
	controllerManager = "kube-controller-manager"
	scheduler         = "kube-scheduler"
	kubectl           = "kubectl"
	kubelet           = "kubelet"
	metricsServer     = "metrics-server"
)

// metricsServerModule is the module of metrics-server. It is built apart from go.mod, because it
// needs other versions of the libraries.
const metricsServerModule = "sigs.k8s.io/metrics-server/cmd/metrics-server@v0.9.0"

// keepBuilds is the time after which an unused build is removed from the cache.
const keepBuilds = 7 * 24 * time.Hour

// packageOf returns the folder of a program's main package, or "" for an unknown program.
func packageOf(program string) string {
	switch program {
	case etcd, apiServer, controllerManager, scheduler, kubectl:
		return "components"
	case kubelet, metricsServer:
		return program
	}
	return ""
}

// builder builds each version of the sources once and keeps the programs in the user's cache
// folder.
type builder struct {
	dir     string
	sources fs.FS
	report  *reporter
}

func newBuilder(report *reporter) (*builder, error) {
	base, err := os.UserCacheDir()
	if err != nil {
		base = "/var/cache" // no home folder
	}
	b := &builder{dir: filepath.Join(base, "podwright-controlplane"), sources: sources, report: report}
	if err := os.MkdirAll(b.dir, 0o755); err != nil {
		return nil, fmt.Errorf("cache folder: %w", err)
	}
	return b, nil
}

// program returns the path of a program. It builds the program if necessary.
func (b *builder) program(ctx context.Context, name string) (string, error) {
	pkg := packageOf(name)
	if pkg == "" {
		return "", fmt.Errorf("unknown program %q", name)
	}
	key, err := b.key(pkg)
	if err != nil {
		return "", err
	}
	dir := filepath.Join(b.dir, pkg+"-"+key)
	path := filepath.Join(dir, name)
	if isFile(path) {
		now := time.Now()
		return path, os.Chtimes(dir, now, now) // record the use
	}
	return path, b.locked(ctx, func() error {
		if isFile(path) { // another process has built it meanwhile
			return nil
		}
		return b.report.step("build "+b.describe(pkg)+" (some minutes)", func() error {
			return b.build(ctx, pkg, dir)
		})
	})
}

// describe returns the name of a build for the report.
func (b *builder) describe(pkg string) string {
	if pkg == metricsServer {
		return metricsServerModule
	}
	return pkg + " of Kubernetes " + b.version()
}

func isFile(path string) bool {
	info, err := os.Stat(path)
	return err == nil && info.Mode().IsRegular()
}

// key returns a hash of all that determines the programs of a package.
func (b *builder) key(pkg string) (string, error) {
	sum := sha256.New()
	fmt.Fprintln(sum, runtime.Version(), runtime.GOARCH, b.linkerFlags())
	files := []string{"go.mod", "go.sum", pkg + "/main.go"}
	if pkg == metricsServer {
		fmt.Fprintln(sum, metricsServerModule)
		files = nil
	}
	for _, file := range files {
		text, err := fs.ReadFile(b.sources, file)
		if err != nil {
			return "", err
		}
		fmt.Fprintln(sum, file, len(text))
		sum.Write(text)
	}
	return hex.EncodeToString(sum.Sum(nil))[:16], nil
}

// version returns the version of k8s.io/kubernetes in go.mod.
func (b *builder) version() string {
	text, _ := fs.ReadFile(b.sources, "go.mod")
	_, rest, _ := strings.Cut(string(text), "k8s.io/kubernetes ")
	version, _, _ := strings.Cut(rest, "\n")
	return strings.TrimSpace(version)
}

func (b *builder) linkerFlags() string {
	return "-s -w -X k8s.io/component-base/version.gitVersion=" + b.version()
}

// build compiles a package into a temporary folder and renames it to dir when it is complete.
func (b *builder) build(ctx context.Context, pkg, dir string) error {
	tmp, err := os.MkdirTemp(b.dir, "build-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(tmp)
	src, out := filepath.Join(tmp, "src"), filepath.Join(tmp, "out")
	if err := os.CopyFS(src, b.sources); err != nil {
		return err
	}
	cmd := exec.CommandContext(ctx, "go", "build", "-trimpath", "-buildvcs=false", "-ldflags", b.linkerFlags(), "-o", filepath.Join(out, pkg), "./"+pkg)
	cmd.Dir, cmd.Env = src, append(goEnv(os.Environ()), "GOTMPDIR="+tmp)
	if pkg == metricsServer {
		cmd.Args = []string{"go", "install", "-trimpath", "-buildvcs=false", "-ldflags", "-s -w", metricsServerModule}
		cmd.Env = append(cmd.Env, "GOBIN="+out)
	}
	cmd.Cancel = func() error { return cmd.Process.Signal(unix.SIGINT) } // which also stops compilers
	cmd.WaitDelay = 10 * time.Second
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGINT}
	if text, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("go build ./%s: %w\n%s", pkg, err, bytes.TrimSpace(text))
	}
	for _, name := range []string{etcd, apiServer, controllerManager, scheduler, kubectl} {
		if packageOf(name) != pkg {
			continue
		}
		if err := os.Symlink(pkg, filepath.Join(out, name)); err != nil {
			return err
		}
	}
	if err := os.Rename(out, dir); err != nil {
		return err
	}
	return b.removeUnused(dir)
}

// removeUnused removes unused builds, and remains of builds that were killed.
func (b *builder) removeUnused(but string) error {
	entries, err := os.ReadDir(b.dir)
	if err != nil {
		return err
	}
	for _, entry := range entries {
		path := filepath.Join(b.dir, entry.Name())
		info, err := entry.Info()
		if err != nil || !entry.IsDir() || path == but || time.Since(info.ModTime()) < keepBuilds {
			continue
		}
		if err := os.RemoveAll(path); err != nil {
			return err
		}
	}
	return nil
}

// goEnv returns environ for a go command that builds for this machine, independent of the caller's
// workspace, flags and target.
func goEnv(environ []string) []string {
	ours := slices.DeleteFunc(slices.Clone(environ), func(kv string) bool {
		name, _, _ := strings.Cut(kv, "=")
		return slices.Contains([]string{"GOWORK", "GOFLAGS", "GOOS", "GOARCH", "GO111MODULE", "CGO_ENABLED"}, name)
	})
	return append(ours, "GOWORK=off", "GOFLAGS=", "CGO_ENABLED=0")
}

// locked runs f under a lock between processes. The lock ends with its process.
func (b *builder) locked(ctx context.Context, f func() error) error {
	lock, err := os.OpenFile(filepath.Join(b.dir, "build.lock"), os.O_CREATE|os.O_RDWR, 0o600)
	if err != nil {
		return err
	}
	defer lock.Close()
	tick := time.NewTicker(100 * time.Millisecond)
	defer tick.Stop()
	for {
		err := unix.Flock(int(lock.Fd()), unix.LOCK_EX|unix.LOCK_NB)
		if err == nil {
			return f()
		}
		if !errors.Is(err, unix.EWOULDBLOCK) && !errors.Is(err, unix.EINTR) {
			return fmt.Errorf("lock %s: %w", lock.Name(), err)
		}
		select {
		case <-ctx.Done():
			return context.Cause(ctx)
		case <-tick.C:
		}
	}
}
