package main

import (
	"context"
	"debug/elf"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
)

const (
	containerdV2 = "v2.2.1"
	// systemPath includes Debian's sbin folders, even where root's PATH lacks them.
	systemPath = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
)

// tools are absolute paths of the programs that a testbed needs.
type tools struct {
	containerd1, containerd2 string
	runc, busybox            string
	cniBin                   string
	portmap                  bool // true if iptables works
}

// installer finds the tools and downloads missing ones.
type installer struct {
	cache  cache
	report *reporter
}

// ensure returns all tools. It unpacks Debian packages into the cache folder and does not install
// them, so that no service starts and no installed program, such as Docker's containerd, is
// replaced.
func (in installer) ensure(ctx context.Context) (tools, error) {
	if t, err := in.find(); err == nil && len(missingPackages()) == 0 {
		return t, nil
	}
	err := in.cache.locked(ctx, "install", func() error {
		if err := in.removeUnfinished(); err != nil {
			return err
		}
		if err := in.packages(ctx); err != nil {
			in.report.line("continuing without: %v", err)
		}
		if err := in.unpackDebs(ctx); err != nil {
			return err
		}
		return in.goInstall(ctx)
	})
	if err != nil {
		return tools{}, err
	}
	return in.find()
}

// find returns all tools, or an error with the names of missing ones.
func (in installer) find() (tools, error) {
	var t tools
	var errs [5]error
	t.containerd1, errs[0] = in.findContainerd1()
	t.runc, errs[1] = lookPath("runc", in.searchPath("runc"))
	t.busybox, errs[2] = in.findBusybox()
	t.cniBin, errs[3] = in.findCNI()
	var err error
	if t.containerd2, err = lookPath("containerd", in.containerd2Dir()); err != nil {
		errs[4] = fmt.Errorf("containerd 2: %w", err)
	}
	if iptables, err := lookPath("iptables", systemPath); err == nil {
		t.portmap = exec.Command(iptables, "-w", "5", "-t", "nat", "-S").Run() == nil
	}
	return t, errors.Join(errs[:]...)
}

// unpacked returns the root folder of a Debian package in the cache.
func (in installer) unpacked(pkg string) string { return in.cache.path("debian", pkg) }
func (in installer) containerd2Dir() string     { return in.cache.path("containerd-" + containerdV2) }

// removeUnfinished removes the folders of killed installs. Complete folders have other names.
func (in installer) removeUnfinished() error {
	paths, err := filepath.Glob(in.cache.path("install-*"))
	if err != nil {
		return err
	}
	for _, path := range paths {
		if strings.HasSuffix(path, ".lock") {
			continue
		}
		if err := os.RemoveAll(path); err != nil {
			return err
		}
	}
	return nil
}

// searchPath returns the system's folders, then the folders of an unpacked package.
func (in installer) searchPath(pkg string) string {
	root := in.unpacked(pkg)
	return systemPath + ":" + filepath.Join(root, "usr/sbin") + ":" + filepath.Join(root, "usr/bin")
}

func (in installer) findContainerd1() (string, error) {
	for dir := range strings.SplitSeq(in.searchPath("containerd"), ":") {
		bin, err := lookPath("containerd", dir)
		if err != nil {
			continue
		}
		if _, err := lookPath("containerd-shim-runc-v2", dir); err != nil {
			continue
		}
		out, err := exec.Command(bin, "--version").Output()
		if err == nil && isContainerd1(string(out)) {
			return bin, nil
		}
	}
	return "", errors.New("containerd 1: not found")
}

// isContainerd1 parses the output of containerd --version. Its third word is the version.
func isContainerd1(out string) bool {
	words := strings.Fields(out)
	return len(words) >= 3 && strings.HasPrefix(strings.TrimPrefix(words[2], "v"), "1.")
}

func (in installer) findBusybox() (string, error) {
	for _, root := range []string{"/", "/usr", in.unpacked("busybox-static"), filepath.Join(in.unpacked("busybox-static"), "usr")} {
		bin := filepath.Join(root, "bin/busybox")
		if isStatic(bin) {
			return bin, nil
		}
	}
	return "", errors.New("static busybox: not found")
}

func isStatic(path string) bool {
	f, err := elf.Open(path)
	if err != nil {
		return false
	}
	defer f.Close()
	for _, p := range f.Progs {
		if p.Type == elf.PT_INTERP {
			return false
		}
	}
	return true
}

func (in installer) findCNI() (string, error) {
	for _, dir := range []string{"/usr/lib/cni", "/opt/cni/bin", filepath.Join(in.unpacked("containernetworking-plugins"), "usr/lib/cni")} {
		complete := true
		for _, plugin := range []string{"bridge", "host-local", "loopback", "portmap"} {
			if _, err := lookPath(plugin, dir); err != nil {
				complete = false
			}
		}
		if complete {
			return dir, nil
		}
	}
	return "", errors.New("CNI plugins: not found")
}

// missingPackages returns the missing packages that must be installed on the system: the C
// compiler for the race detector, iptables for host ports, a browser for pages, and dbus for the
// tests' own logind. Other tools work without installation.
func missingPackages() []string {
	var missing []string
	for _, p := range []struct{ programs, packages []string }{
		{[]string{"gcc"}, []string{"gcc", "libc6-dev"}},
		{[]string{"iptables"}, []string{"iptables"}},
		{[]string{"chromium-headless-shell", "chromium"}, []string{"chromium-headless-shell"}},
		{[]string{"dbus-daemon"}, []string{"dbus-daemon"}},
	} {
		installed := func(program string) bool { _, err := lookPath(program, systemPath); return err == nil }
		if !slices.ContainsFunc(p.programs, installed) {
			missing = append(missing, p.packages...)
		}
	}
	return missing
}

func (in installer) packages(ctx context.Context) error {
	missing := missingPackages()
	if len(missing) == 0 {
		return nil
	}
	return in.report.step("apt-get install "+strings.Join(missing, " "), func() error {
		args := []string{"install", "-y", "-q", "--no-install-recommends", "--no-remove", "-o", "DPkg::Lock::Timeout=120"}
		return in.apt(ctx, "", append(args, missing...)...)
	})
}

// unpackDebs downloads the missing packages and unpacks them into the cache folder.
func (in installer) unpackDebs(ctx context.Context) error {
	var missing []string
	if _, err := in.findContainerd1(); err != nil {
		missing = append(missing, "containerd")
	}
	if _, err := lookPath("runc", in.searchPath("runc")); err != nil {
		missing = append(missing, "runc")
	}
	if _, err := in.findCNI(); err != nil {
		missing = append(missing, "containernetworking-plugins")
	}
	if _, err := in.findBusybox(); err != nil {
		missing = append(missing, "busybox-static")
	}
	if len(missing) == 0 {
		return nil
	}
	return in.report.step("download "+strings.Join(missing, " "), func() error {
		return in.download(ctx, missing)
	})
}

func (in installer) download(ctx context.Context, packages []string) error {
	tmp, err := os.MkdirTemp(in.cache.dir, "install-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(tmp)
	if err := in.apt(ctx, tmp, append([]string{"download", "-q"}, packages...)...); err != nil {
		return err
	}
	if err := os.MkdirAll(in.cache.path("debian"), 0o755); err != nil {
		return err
	}
	for _, pkg := range packages {
		debs, err := filepath.Glob(filepath.Join(tmp, pkg+"_*.deb"))
		if err != nil || len(debs) != 1 {
			return fmt.Errorf("apt-get download %s: got %d files", pkg, len(debs))
		}
		root := filepath.Join(tmp, pkg)
		if err := runQuiet(exec.CommandContext(ctx, "dpkg-deb", "-x", debs[0], root)); err != nil {
			return err
		}
		if err := os.RemoveAll(in.unpacked(pkg)); err != nil {
			return err
		}
		if err := os.Rename(root, in.unpacked(pkg)); err != nil {
			return err
		}
	}
	return nil
}

// apt runs apt-get, and once more with new package lists after a failure. An interrupt does not
// stop it, because an interrupted dpkg would leave packages half configured.
func (in installer) apt(ctx context.Context, dir string, args ...string) error {
	run := func(args ...string) error {
		if err := context.Cause(ctx); err != nil {
			return err
		}
		cmd := exec.Command("apt-get", args...)
		cmd.Dir = dir
		cmd.Env = append(os.Environ(), "DEBIAN_FRONTEND=noninteractive")
		cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
		return runQuiet(cmd)
	}
	if run(args...) == nil {
		return nil
	}
	if err := run("update", "-q"); err != nil {
		return err
	}
	return run(args...)
}

// goInstall builds containerd 2 and its shim from source into a folder, which gets its final name
// when it is complete.
func (in installer) goInstall(ctx context.Context) error {
	if _, err := lookPath("containerd", in.containerd2Dir()); err == nil {
		return nil
	}
	return in.report.step("go install containerd "+containerdV2, func() error {
		tmp, err := os.MkdirTemp(in.cache.dir, "install-")
		if err != nil {
			return err
		}
		defer os.RemoveAll(tmp)
		const module = "github.com/containerd/containerd/v2/cmd/"
		cmd := exec.CommandContext(ctx, "go", "install",
			module+"containerd@"+containerdV2, module+"containerd-shim-runc-v2@"+containerdV2)
		cmd.Dir = tmp
		cmd.Env = goEnv(os.Environ(), tmp)
		if err := runQuiet(cmd); err != nil {
			return err
		}
		if err := os.Chmod(tmp, 0o755); err != nil {
			return err
		}
		if err := os.RemoveAll(in.containerd2Dir()); err != nil {
			return err
		}
		return os.Rename(tmp, in.containerd2Dir())
	})
}

// goEnv returns environ for a go command that builds for this machine, independent of the caller's
// workspace, flags and target.
func goEnv(environ []string, gobin string) []string {
	var out []string
	for _, kv := range environ {
		switch name, _, _ := strings.Cut(kv, "="); name {
		case "GOBIN", "GOWORK", "GOFLAGS", "GOOS", "GOARCH", "CGO_ENABLED", "GO111MODULE":
		default:
			out = append(out, kv)
		}
	}
	return append(out, "GOBIN="+gobin, "GOWORK=off", "GOFLAGS=-mod=mod", "CGO_ENABLED=0")
}

// lookPath is exec.LookPath with the given search path.
func lookPath(name, path string) (string, error) {
	for dir := range strings.SplitSeq(path, ":") {
		bin, err := exec.LookPath(filepath.Join(dir, name))
		if err == nil {
			return bin, nil
		}
	}
	return "", fmt.Errorf("%s: %w", name, exec.ErrNotFound)
}

// runQuiet runs cmd. The error includes the last lines of its output.
func runQuiet(cmd *exec.Cmd) error {
	out, err := cmd.CombinedOutput()
	if err == nil {
		return nil
	}
	return fmt.Errorf("%s: %w\n%s", strings.Join(cmd.Args, " "), err, lastLines(out))
}
