package embedded

import (
	"errors"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/podwright/podwright/cri/fake"
)

// ErrNoSupervisor is returned by New if main did not call RunSupervisor first.
var ErrNoSupervisor = errors.New("embedded: host processes need `if embedded.RunSupervisor() { return }` as the first statement of main")

// killTimeout is the time for killed processes to end; after it their supervisor is killed, too. It
// is shorter than the timeout of cri/fake.
const killTimeout = 5 * time.Second

// The environment variables between a process and its supervisors.
const (
	// envSupervise makes RunSupervisor supervise; its value is the container ID.
	envSupervise = "PODWRIGHT_EMBEDDED_SUPERVISE"
	// envHook is the PID of the process whose main called RunSupervisor.
	envHook = "PODWRIGHT_EMBEDDED_HOOK"
)

// markHook records that this process's main called RunSupervisor. An environment variable is
// visible in the whole process. It contains the PID, so that children do not take it for their own
// mark.
func markHook() error { return os.Setenv(envHook, strconv.Itoa(os.Getpid())) }

func hookMarked() bool { return os.Getenv(envHook) == strconv.Itoa(os.Getpid()) }

type hostCommand struct {
	Path string   `json:"path"`
	Args []string `json:"args"`
	Env  []string `json:"env"`
	Dir  string   `json:"dir"`
	TTY  bool     `json:"tty,omitempty"` // descriptor 0 is its terminal
}

// hostOrder is a request of the agent to a supervisor after the command was sent.
type hostOrder struct {
	Signal int `json:"signal"`
}

// hostReport is a message of a supervisor to the agent. The first contains the PID or the start
// error, the second the exit code, after all processes of the command have ended.
type hostReport struct {
	PID   int    `json:"pid,omitempty"`
	Error string `json:"error,omitempty"`
	Ended bool   `json:"ended,omitempty"`
	Code  int    `json:"code,omitempty"`
}

// errNoCommand is the start error of a container without a command, which would need the image's
// entrypoint.
var errNoCommand = errors.New("the container has no command, and a host process has no image with an entrypoint: set command or args in the container's spec")

// commandOf returns the command of a process. exists returns an error if a path is not an
// executable file. hostsPath is the agent's PATH, and dir the default working directory and HOME.
func commandOf(p *fake.Process, hostsPath, dir string, exists func(path string) error) (hostCommand, error) {
	if len(p.Args) == 0 || p.Args[0] == "" {
		return hostCommand{}, errNoCommand
	}
	cmd := hostCommand{Args: p.Args, Env: append([]string(nil), p.Env...), Dir: p.Dir, TTY: p.TTY}
	if _, ok := p.LookupEnv("TERM"); !ok && p.TTY {
		cmd.Env = append(cmd.Env, "TERM=xterm")
	}
	searched, ok := p.LookupEnv("PATH")
	if !ok {
		searched = hostsPath
		cmd.Env = append(cmd.Env, "PATH="+hostsPath)
	}
	if _, ok := p.LookupEnv("HOSTNAME"); !ok && p.Pod.Hostname != "" {
		cmd.Env = append(cmd.Env, "HOSTNAME="+p.Pod.Hostname)
	}
	if _, ok := p.LookupEnv("HOME"); !ok {
		cmd.Env = append(cmd.Env, "HOME="+dir)
	}
	if cmd.Dir == "" {
		cmd.Dir = dir
	}
	path, err := findExecutable(p.Args[0], searched, cmd.Dir, exists)
	if err != nil {
		return hostCommand{}, &exec.Error{Name: p.Args[0], Err: err}
	}
	cmd.Path = path
	return cmd, nil
}

// findExecutable searches the directories of path for a name without slash. A name with a slash is
// relative to dir.
func findExecutable(name, path, dir string, exists func(path string) error) (string, error) {
	if strings.Contains(name, "/") {
		if !filepath.IsAbs(name) {
			name = filepath.Join(dir, name)
		}
		return name, exists(name)
	}
	for _, entry := range filepath.SplitList(path) {
		if entry == "" {
			entry = "."
		}
		if !filepath.IsAbs(entry) {
			entry = filepath.Join(dir, entry)
		}
		if candidate := filepath.Join(entry, name); exists(candidate) == nil {
			return candidate, nil
		}
	}
	return "", fake.ErrNotFound
}

// hostPath returns the search path for containers that do not set PATH.
func hostPath() string {
	if path := os.Getenv("PATH"); path != "" {
		return path
	}
	return "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
}

// executable returns an error if path is not an executable file of the host.
func executable(path string) error {
	stat, err := os.Stat(path)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return errors.New("no such file or directory")
	case err != nil:
		return err
	case stat.IsDir():
		return errors.New("is a directory")
	case stat.Mode()&0o111 == 0:
		return syscall.EACCES
	}
	return nil
}
