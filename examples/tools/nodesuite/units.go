package main

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path"
	"slices"
	"strings"
	"sync"
	"syscall"
	"time"
)

// stopTimeout is systemd's default time between SIGTERM and SIGKILL of a stop.
const stopTimeout = 90 * time.Second

// units replaces systemd: it runs services as children of this process. Stand-ins of systemd-run
// and systemctl make requests to it over a unix socket.
type units struct {
	environ []string // of the services

	mu    sync.Mutex // locked for the length of each operation
	units map[string]*unit
}

// unit is a transient service. It stays listed after its process has ended.
type unit struct {
	service
	cmd   *exec.Cmd
	ended chan struct{} // closed after the process has ended
}

// service is the definition of a unit, from the arguments of systemd-run.
type service struct {
	name string // without ".service"
	argv []string
	log  string // output is appended to this file
}

// serve listens on a socket. The returned function stops the server and all services.
func (u *units) serve(ctx context.Context, socket string) (func(), error) {
	listener, err := new(net.ListenConfig).Listen(ctx, "unix", socket)
	if err != nil {
		return nil, err
	}
	server := &http.Server{Handler: u}
	done := make(chan struct{})
	go func() {
		defer close(done)
		_ = server.Serve(listener) // ends with Close
	}()
	return func() {
		server.Close()
		<-done
		u.stopAll()
	}, nil
}

// ServeHTTP runs a program. The path is its name, and each parameter "arg" an argument.
func (u *units) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	out, err := u.call(strings.TrimPrefix(r.URL.Path, "/"), r.URL.Query()["arg"])
	if err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	fmt.Fprint(w, out)
}

// call runs a program of systemd and returns its output.
func (u *units) call(program string, args []string) (string, error) {
	u.mu.Lock()
	defer u.mu.Unlock()
	switch program {
	case "systemd-run":
		if slices.Contains(args, "--version") {
			return "systemd 252 (nodesuite)\n", nil
		}
		s, err := parseRun(args)
		if err != nil {
			return "", err
		}
		return "", u.run(s)
	case "systemctl":
		c, err := parseControl(args)
		if err != nil {
			return "", err
		}
		if c.verb == "list-units" {
			return u.list(c), nil
		}
		return "", u.control(c)
	}
	return "", fmt.Errorf("unknown program %q", program)
}

// parseRun parses the arguments of systemd-run. It ignores properties other than the log file.
func parseRun(args []string) (service, error) {
	var s service
	for i := 0; i < len(args); i++ {
		arg := args[i]
		switch {
		case arg == "-p" && i+1 < len(args):
			i++
			if file, ok := strings.CutPrefix(args[i], "StandardError="); ok {
				_, s.log, _ = strings.Cut(file, ":")
			}
		case strings.HasPrefix(arg, "--unit="):
			s.name = unitName(strings.TrimPrefix(arg, "--unit="))
		case strings.HasPrefix(arg, "--slice="), arg == "--remain-after-exit":
		case strings.HasPrefix(arg, "-"):
			return s, fmt.Errorf("unsupported argument %q", arg)
		default:
			for _, word := range args[i:] {
				s.argv = append(s.argv, strings.NewReplacer("%%", "%", "$$", "$").Replace(word))
			}
			i = len(args)
		}
	}
	switch {
	case s.name == "" || s.log == "":
		return s, errors.New("no unit or no log file")
	case len(s.argv) == 0:
		return s, errors.New("no command")
	}
	return s, nil
}

// controlCall is a parsed command line of systemctl.
type controlCall struct {
	verb    string
	units   []string // names, or patterns of list-units
	running bool     // list running units only
}

func parseControl(args []string) (controlCall, error) {
	var c controlCall
	for _, arg := range args {
		switch {
		case arg == "--state=running":
			c.running = true
		case strings.HasPrefix(arg, "-"):
			return c, fmt.Errorf("unsupported argument %q", arg)
		case c.verb == "":
			c.verb = arg
		default:
			c.units = append(c.units, unitName(arg))
		}
	}
	if !slices.Contains([]string{"list-units", "start", "stop", "restart", "kill", "reset-failed"}, c.verb) {
		return c, fmt.Errorf("unsupported command %q", c.verb)
	}
	if len(c.units) != 1 {
		return c, fmt.Errorf("%s: got %d units, want one", c.verb, len(c.units))
	}
	return c, nil
}

func unitName(name string) string { return strings.TrimSuffix(name, ".service") }

func (u *units) run(s service) error {
	if old := u.units[s.name]; old != nil && old.running() {
		return fmt.Errorf("unit %s exists", s.name)
	}
	started, err := u.start(s)
	if err != nil {
		return err
	}
	if u.units == nil {
		u.units = map[string]*unit{}
	}
	u.units[s.name] = started
	return nil
}

func (u *units) start(s service) (*unit, error) {
	log, err := os.OpenFile(s.log, os.O_CREATE|os.O_WRONLY|os.O_APPEND, 0o644)
	if err != nil {
		return nil, err
	}
	defer log.Close()
	cmd := exec.Command(s.argv[0], s.argv[1:]...)
	cmd.Dir, cmd.Env, cmd.Stdout, cmd.Stderr = "/", u.environ, log, log
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGKILL}
	if err := cmd.Start(); err != nil {
		return nil, err
	}
	started := &unit{service: s, cmd: cmd, ended: make(chan struct{})}
	go func() {
		_ = cmd.Wait() // a service may end with any code
		close(started.ended)
	}()
	return started, nil
}

func (t *unit) running() bool {
	select {
	case <-t.ended:
		return false
	default:
		return true
	}
}

// stop sends SIGTERM, and SIGKILL after stopTimeout.
func (t *unit) stop() {
	_ = t.cmd.Process.Signal(syscall.SIGTERM)
	timeout := time.NewTimer(stopTimeout)
	defer timeout.Stop()
	select {
	case <-t.ended:
	case <-timeout.C:
		_ = t.cmd.Process.Kill()
		<-t.ended
	}
}

func (u *units) control(c controlCall) error {
	t := u.units[c.units[0]]
	if t == nil {
		if c.verb == "reset-failed" {
			return nil
		}
		return fmt.Errorf("unit %s not found", c.units[0])
	}
	switch c.verb {
	case "kill":
		if t.running() {
			return t.cmd.Process.Signal(syscall.SIGTERM)
		}
	case "stop":
		t.stop()
		delete(u.units, t.name)
	case "restart":
		t.stop()
		return u.run(t.service)
	case "start":
		if !t.running() {
			return u.run(t.service)
		}
	}
	return nil
}

// list returns a table with the columns of systemctl list-units.
func (u *units) list(c controlCall) string {
	var out strings.Builder
	for name, t := range u.units {
		state := "exited"
		if t.running() {
			state = "running"
		}
		if ok, _ := path.Match(c.units[0], name); ok && (state == "running" || !c.running) {
			fmt.Fprintf(&out, "  %s.service loaded active %s %s\n", name, state, strings.Join(t.argv, " "))
		}
	}
	return out.String()
}

func (u *units) stopAll() {
	u.mu.Lock()
	defer u.mu.Unlock()
	for _, t := range u.units {
		t.stop()
	}
	u.units = nil
}
