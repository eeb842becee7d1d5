package main

import (
	"context"
	"crypto/sha256"
	"embed"
	"encoding/hex"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
)

// sources are the programs that run inside test containers, embedded so that the testbed can build
// them from any folder.
//
//go:embed pause/main.go testprog/main.go testprog/http.go testprog/health.go testprog/tolerated.go
var sources embed.FS

// buildProgram returns the static binary of an embedded program. It builds each version of the
// source once per Go version.
func buildProgram(ctx context.Context, c cache, name string) (string, error) {
	files, err := fs.Glob(sources, name+"/*.go")
	if err != nil {
		return "", err
	}
	sum := sha256.New()
	fmt.Fprintln(sum, runtime.Version(), runtime.GOARCH)
	for _, file := range files {
		text, err := sources.ReadFile(file)
		if err != nil {
			return "", err
		}
		fmt.Fprintln(sum, file, len(text))
		sum.Write(text)
	}
	out := c.path("programs", name+"-"+hex.EncodeToString(sum.Sum(nil))[:16])
	if _, err := os.Stat(out); err == nil {
		return out, nil
	}
	return out, compile(ctx, c, files, out)
}

func compile(ctx context.Context, c cache, files []string, out string) error {
	if err := os.MkdirAll(filepath.Dir(out), 0o755); err != nil {
		return err
	}
	tmp, err := os.MkdirTemp(c.dir, "build-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(tmp)
	args := []string{"build", "-trimpath", "-ldflags=-s -w", "-o", "program"}
	for _, file := range files {
		text, err := sources.ReadFile(file)
		if err != nil {
			return err
		}
		base := filepath.Base(file)
		if err := os.WriteFile(filepath.Join(tmp, base), text, 0o644); err != nil {
			return err
		}
		args = append(args, base)
	}
	cmd := exec.CommandContext(ctx, "go", args...)
	cmd.Dir = tmp
	cmd.Env = goEnv(os.Environ(), "")
	if err := runQuiet(cmd); err != nil {
		return err
	}
	return os.Rename(filepath.Join(tmp, "program"), out)
}
