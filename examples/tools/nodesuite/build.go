package main

import (
	"bytes"
	"context"
	"crypto/sha256"
	"embed"
	"encoding/hex"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"

	"golang.org/x/sys/unix"
)

// appletSources are the sources of the program that runs in images under several names.
//
//go:embed applets/main.go
var appletSources embed.FS

// controlPlane is the module that pins the version of Kubernetes.
const controlPlane = "examples/tools/controlplane"

// Packages of the module k8s.io/kubernetes and of its requirements.
const (
	suitePackage = "k8s.io/kubernetes/test/e2e_node"
	imagePackage = "k8s.io/kubernetes/test/images/"
	ginkgo       = "github.com/onsi/ginkgo/v2/ginkgo"
)

// imagePrograms are programs of the suite's images, below imagePackage.
var imagePrograms = []string{"agnhost", "nonewprivs", "sample-device-plugin"}

// programs are the paths of all programs.
type programs struct {
	kubelet, upstream string
	suite, ginkgo     string
	images            string // folder with imagePrograms and applets
	kubernetes        string // source folder of k8s.io/kubernetes
}

// builder keeps programs of upstream's module in the user's cache folder, in one folder per version.
type builder struct{ dir string }

func newBuilder() (builder, error) {
	base, err := os.UserCacheDir()
	if err != nil {
		base = "/var/cache" // no home folder
	}
	sum := sha256.New()
	fmt.Fprintln(sum, runtime.Version(), runtime.GOARCH)
	for _, file := range []string{"go.mod", "go.sum"} {
		text, err := os.ReadFile(filepath.Join(controlPlane, file))
		if err != nil {
			return builder{}, fmt.Errorf("%w (run nodesuite in the root of the repository)", err)
		}
		fmt.Fprintln(sum, file, len(text))
		sum.Write(text)
	}
	b := builder{dir: filepath.Join(base, "podwright-nodesuite", hex.EncodeToString(sum.Sum(nil))[:16])}
	return b, os.MkdirAll(b.dir, 0o755)
}

// programs builds the missing programs.
func (b builder) programs(ctx context.Context, o options) (programs, error) {
	p := programs{
		kubelet: o.kubelet, upstream: o.upstream, suite: o.suite,
		ginkgo: filepath.Join(b.dir, "ginkgo"), images: b.dir,
	}
	lock, err := b.lock()
	if err != nil {
		return p, err
	}
	defer lock.Close()
	modfile, err := b.modfile()
	if err != nil {
		return p, err
	}
	if err := goRun(ctx, "mod", "download", "-C", controlPlane, "k8s.io/kubernetes"); err != nil {
		return p, err
	}
	if p.kubernetes, err = goOutput(ctx, "list", "-C", controlPlane, "-m", "-f", "{{.Dir}}", "k8s.io/kubernetes"); err != nil {
		return p, err
	}
	if p.suite == "" {
		p.suite = filepath.Join(b.dir, "e2e_node.test")
		if err := b.build(ctx, p.suite, "test", "-c", "-vet=off", modfile, suitePackage); err != nil {
			return p, err
		}
	}
	if err := b.build(ctx, p.ginkgo, "build", modfile, ginkgo); err != nil {
		return p, err
	}
	for _, name := range imagePrograms {
		if err := b.build(ctx, filepath.Join(b.dir, name), "build", modfile, imagePackage+name); err != nil {
			return p, err
		}
	}
	if err := b.buildApplets(ctx); err != nil {
		return p, err
	}
	if p.kubelet == "" {
		logf("build examples/kubelet")
		p.kubelet = filepath.Join(b.dir, "kubelet")
		if err := goRun(ctx, "build", "-C", "examples", "-o", p.kubelet, "./kubelet"); err != nil {
			return p, err
		}
	}
	if p.upstream == "" && !o.alone {
		logf("build upstream's kubelet")
		if p.upstream, err = goOutput(ctx, "run", "-C", controlPlane, ".", "-build", "kubelet"); err != nil {
			return p, err
		}
	}
	return p, nil
}

// lock waits for other builds. The lock ends with the file.
func (b builder) lock() (*os.File, error) {
	lock, err := os.OpenFile(filepath.Join(b.dir, "build.lock"), os.O_CREATE|os.O_RDWR, 0o600)
	if err != nil {
		return nil, err
	}
	if err := unix.Flock(int(lock.Fd()), unix.LOCK_EX); err != nil {
		lock.Close()
		return nil, fmt.Errorf("lock %s: %w", lock.Name(), err)
	}
	return lock, nil
}

// modfile copies go.mod and go.sum, because the suite needs modules that they lack, and returns
// the flag of the go command for the copy.
func (b builder) modfile() (string, error) {
	for _, file := range []string{"go.mod", "go.sum"} {
		target := filepath.Join(b.dir, file)
		if _, err := os.Stat(target); err == nil {
			continue // it has the additions of an earlier build
		}
		text, err := os.ReadFile(filepath.Join(controlPlane, file))
		if err != nil {
			return "", err
		}
		if err := os.WriteFile(target, text, 0o644); err != nil {
			return "", err
		}
	}
	return "-modfile=" + filepath.Join(b.dir, "go.mod"), nil
}

// build runs a go command that writes out, unless out exists.
func (b builder) build(ctx context.Context, out, verb string, args ...string) error {
	if _, err := os.Stat(out); err == nil {
		return nil
	}
	logf("build %s (some minutes)", filepath.Base(out))
	tmp := out + ".tmp"
	args = append([]string{verb, "-C", controlPlane, "-mod=mod", "-ldflags=-s -w", "-o", tmp}, args...)
	if err := goRun(ctx, args...); err != nil {
		return err
	}
	return os.Rename(tmp, out)
}

// buildApplets builds the program of this repository, which the go command caches.
func (b builder) buildApplets(ctx context.Context) error {
	text, err := appletSources.ReadFile("applets/main.go")
	if err != nil {
		return err
	}
	source := filepath.Join(b.dir, "applets.go")
	if err := os.WriteFile(source, text, 0o644); err != nil {
		return err
	}
	return goRun(ctx, "build", "-ldflags=-s -w", "-o", filepath.Join(b.dir, "applets"), source)
}

func goCommand(ctx context.Context, args ...string) *exec.Cmd {
	cmd := exec.CommandContext(ctx, "go", args...)
	cmd.Env = goEnv(os.Environ())
	return cmd
}

func goRun(ctx context.Context, args ...string) error { return runQuiet(goCommand(ctx, args...)) }

// goOutput returns the output of a go command.
func goOutput(ctx context.Context, args ...string) (string, error) {
	cmd := goCommand(ctx, args...)
	cmd.Stderr = os.Stderr
	out, err := cmd.Output()
	if err != nil {
		return "", fmt.Errorf("%s: %w", strings.Join(cmd.Args, " "), err)
	}
	return string(bytes.TrimSpace(out)), nil
}

// goEnv returns environ for a go command that builds static programs for this machine, independent
// of the caller's workspace and target. It keeps a limit of parallel actions (GOFLAGS=-p=N).
func goEnv(environ []string) []string {
	flags := "GOFLAGS=-trimpath"
	ours := slices.DeleteFunc(slices.Clone(environ), func(kv string) bool {
		name, value, _ := strings.Cut(kv, "=")
		for field := range strings.FieldsSeq(value) {
			if name == "GOFLAGS" && strings.HasPrefix(field, "-p=") {
				flags += " " + field
			}
		}
		return slices.Contains([]string{"GOWORK", "GOFLAGS", "GOOS", "GOARCH", "GO111MODULE", "CGO_ENABLED"}, name)
	})
	return append(ours, "GOWORK=off", flags, "CGO_ENABLED=0")
}
