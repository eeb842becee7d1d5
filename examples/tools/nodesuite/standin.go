package main

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"

	"github.com/podwright/podwright/examples/tools/internal/control"
)

// socketVariable names the environment variable with the socket of units.
const socketVariable = "NODESUITE_SOCKET"

// standIns are the names under which this program replaces another.
var standIns = []string{"systemd-run", "systemctl", "sudo"}

// standIn replaces a program if args[0] has its name, and returns its exit code.
func standIn(args []string) (code int, ok bool) {
	program := filepath.Base(args[0])
	var err error
	switch program {
	case "systemd-run", "systemctl":
		var out []byte
		out, err = control.Do(context.Background(), http.MethodPost, os.Getenv(socketVariable), requestPath(program, args[1:]), 2*stopTimeout)
		if err == nil {
			_, err = os.Stdout.Write(out)
		}
	case "sudo":
		err = execute(args[1:])
	default:
		return 0, false
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, program+":", err)
		return 1, true
	}
	return 0, true
}

// requestPath returns the path of a request to units.
func requestPath(program string, args []string) string {
	return "/" + program + "?" + url.Values{"arg": args}.Encode()
}

// execute replaces this process by a command. This process is root already.
func execute(argv []string) error {
	if len(argv) == 0 {
		return errors.New("no command")
	}
	path, err := exec.LookPath(argv[0])
	if err != nil {
		return err
	}
	return syscall.Exec(path, argv, os.Environ())
}

// linkStandIns creates a folder with links to this program.
func linkStandIns(dir string) error {
	self, err := os.Executable()
	if err != nil {
		return err
	}
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return err
	}
	for _, name := range standIns {
		if err := os.Symlink(self, filepath.Join(dir, name)); err != nil {
			return err
		}
	}
	return nil
}
