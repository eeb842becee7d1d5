package main

import (
	"context"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
)

// test runs the tests of packages whose names match run in one guest, each package in its own
// folder. It prints the output of go test.
func (i image) test(ctx context.Context, run string, patterns []string, out io.Writer) (code int, err error) {
	share, err := os.MkdirTemp("", "podwright-guest-")
	if err != nil {
		return exitSetup, err
	}
	defer os.RemoveAll(share)
	pkgs, err := list(ctx, patterns)
	if err != nil {
		return exitSetup, err
	}
	script := "code=0\n"
	for n, p := range pkgs {
		name := fmt.Sprintf("%d", n)
		if err := p.build(ctx, filepath.Join(share, name)); err != nil {
			return exitSetup, err
		}
		script += fmt.Sprintf(
			"if (cd /mnt/%s && PODWRIGHT_GUEST=1 ./tests -test.v -test.run %s -test.timeout 10m); then echo ok %s; else echo FAIL %s; code=1; fi\n",
			name, quote(run), p.path, p.path)
	}
	return i.run(ctx, share, script+"exit $code", out)
}

func quote(text string) string { return "'" + strings.ReplaceAll(text, "'", `'\''`) + "'" }

type pkg struct{ path, dir string }

func list(ctx context.Context, patterns []string) (out []pkg, err error) {
	cmd := exec.CommandContext(ctx, "go", append([]string{"list", "-f", "{{.ImportPath}}\t{{.Dir}}", "--"}, patterns...)...)
	cmd.Stderr = os.Stderr
	text, err := cmd.Output()
	if err != nil {
		return nil, fmt.Errorf("go list: %w", err)
	}
	for line := range strings.Lines(string(text)) {
		path, dir, _ := strings.Cut(strings.TrimSpace(line), "\t")
		out = append(out, pkg{path, dir})
	}
	return out, nil
}

// build writes the package's test binary and testdata into a folder.
func (p pkg) build(ctx context.Context, to string) error {
	if err := os.Mkdir(to, 0o755); err != nil {
		return err
	}
	cmd := exec.CommandContext(ctx, "go", "test", "-c", "-ldflags=-s -w", "-o", filepath.Join(to, "tests"), p.path)
	cmd.Env = append(os.Environ(), "CGO_ENABLED=0")
	if text, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("go test -c %s: %w\n%s", p.path, err, text)
	}
	if _, err := os.Stat(filepath.Join(to, "tests")); err != nil {
		return fmt.Errorf("%s has no tests", p.path)
	}
	data := filepath.Join(p.dir, "testdata")
	if _, err := os.Stat(data); err != nil {
		return nil
	}
	return os.CopyFS(filepath.Join(to, "testdata"), os.DirFS(data))
}
