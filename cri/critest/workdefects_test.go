package critest

import (
	"bytes"
	"context"
	"errors"
	"io"
	"net"
	"os"
	"regexp"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"google.golang.org/grpc/status"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/podwright/podwright/cri"
	"github.com/podwright/podwright/cri/fake"
)

const (
	otherName   = "critest.test/other:1"
	otherID     = "sha256:aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa"
	otherDigest = "sha256:bbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbb"
)

func defects() []defect {
	var all []defect
	for _, some := range [][]defect{callDefects(), replyDefects(), stopDefects(), logDefects(), execDefects(), sessionDefects(), eventDefects(), imageDefects(), statsDefects()} {
		all = append(all, some...)
	}
	return all
}

func onStop(stop func(ctx context.Context, rt *fake.Runtime, id string, grace time.Duration) error) func(*spoiled, *fake.Runtime) {
	return func(s *spoiled, rt *fake.Runtime) {
		s.stop = func(ctx context.Context, id string, grace time.Duration) error { return stop(ctx, rt, id, grace) }
	}
}

// oneStopAtATime makes a stop wait for the previous one.
func oneStopAtATime(s *spoiled, rt *fake.Runtime) {
	place := make(chan struct{}, 1)
	s.stop = func(ctx context.Context, id string, grace time.Duration) error {
		select {
		case place <- struct{}{}:
		case <-ctx.Done():
			return ctx.Err()
		}
		defer func() { <-place }()
		return rt.StopContainer(ctx, id, grace)
	}
}

func stopDefects() []defect {
	noGrace := onStop(func(ctx context.Context, rt *fake.Runtime, id string, _ time.Duration) error {
		return rt.StopContainer(ctx, id, 0)
	})
	return []defect{
		{name: "no grace for a handler", caughtBy: "Stop/a container that ends within its grace keeps its exit code", runtime: noGrace},
		{name: "SIGKILL for all", caughtBy: "Stop/a container without a handler ends by SIGTERM", runtime: noGrace},
		{name: "half the grace", caughtBy: "Stop/a container that ignores SIGTERM is killed after its grace and not before", runtime: onStop(
			func(ctx context.Context, rt *fake.Runtime, id string, grace time.Duration) error {
				return rt.StopContainer(ctx, id, grace/2)
			})},
		{name: "a second of grace for free", caughtBy: "Stop/a stop without grace kills at once, with no signal before", runtime: onStop(
			func(ctx context.Context, rt *fake.Runtime, id string, grace time.Duration) error {
				return rt.StopContainer(ctx, id, grace+time.Second)
			})},
		{name: "stops queue", caughtBy: "Stop/a second stop with a shorter grace shortens the first", runtime: oneStopAtATime},
		{name: "kills queue", caughtBy: "Stop/a second stop without grace kills at once", runtime: oneStopAtATime},
		{name: "every stop signals", caughtBy: "Stop/a second stop does not repeat the signal", runtime: onStop(
			func(ctx context.Context, rt *fake.Runtime, id string, grace time.Duration) error {
				return errors.Join(rt.Signal(id, 15), rt.StopContainer(ctx, id, grace))
			})},
		{name: "a stop goes on without its caller", caughtBy: "Stop/a stop whose caller leaves sends the signal and does not kill", runtime: onStop(
			func(ctx context.Context, rt *fake.Runtime, id string, grace time.Duration) error {
				over := make(chan error, 1)
				go func() { over <- rt.StopContainer(context.WithoutCancel(ctx), id, grace) }()
				select {
				case err := <-over:
					return err
				case <-ctx.Done():
					return status.FromContextError(ctx.Err()).Err()
				}
			})},
		{name: "the stop signal is shown and not sent", caughtBy: "Stop/the stop signal in the status is the signal sent", runtime: func(s *spoiled, _ *fake.Runtime) {
			s.create = func(c *runtimeapi.ContainerConfig) error { c.StopSignal = 0; return nil }
			s.status = func(c *runtimeapi.ContainerStatus) { c.StopSignal = runtimeapi.Signal_SIGNAL_SIGUSR1 }
		}},
		{name: "a sandbox stops its containers gently", caughtBy: "Stop/stopping a sandbox kills its containers without grace", runtime: func(s *spoiled, rt *fake.Runtime) {
			s.stopSandbox = func(ctx context.Context, id string) error {
				list, err := rt.ListContainers(ctx, &runtimeapi.ContainerFilter{PodSandboxId: id})
				for _, c := range list {
					err = errors.Join(err, rt.StopContainer(ctx, c.Id, 10*time.Second))
				}
				return errors.Join(err, rt.StopPodSandbox(ctx, id))
			}
		}},
		{name: "every container has ended", caughtBy: "Stop/a stopped container ends after it started and starts after it was made", runtime: func(s *spoiled, _ *fake.Runtime) {
			s.status = func(c *runtimeapi.ContainerStatus) { c.FinishedAt = c.CreatedAt + 1 }
		}},
	}
}

func replacing(pattern, with string) func(*fake.Config) {
	expression := regexp.MustCompile(pattern)
	return onLog(os.O_APPEND, func(p []byte) []byte { return expression.ReplaceAll(p, []byte(with)) })
}

func logDefects() []defect {
	same := func(p []byte) []byte { return p }
	return []defect{
		{name: "all is stdout", caughtBy: "Logs/each stream's lines are in the log under its name", config: replacing(" stderr ", " stdout ")},
		{name: "empty lines are dropped", caughtBy: "Logs/empty lines are lines", config: replacing(`(?m)^\S+ stdout F \n`, "")},
		{name: "all parts are full", caughtBy: "Logs/a long line comes in parts, and only the last has the tag F", config: replacing(" P ", " F ")},
		{name: "a line without an end has the tag F", caughtBy: "Logs/a last line without a newline is partial", config: replacing(" P ", " F ")},
		{name: "logs are UTF-8", caughtBy: "Logs/bytes come as they were written", config: onLog(os.O_APPEND, func(p []byte) []byte { return bytes.ToValidUTF8(p, []byte("?")) })},
		{name: "each write is a line", caughtBy: "Logs/a line written in pieces is one line", config: replacing(`(\S+ stdout F )abcd\n`, "${1}ab\n${1}cd\n")},
		{name: "a terminal has a stderr", caughtBy: "Logs/a terminal's output is all stdout", config: replacing(" stdout F err", " stderr F err")},
		{name: "the last line is lost", caughtBy: "Logs/the log is complete when the container has exited", config: replacing(`(?m)^.* line 1999\n`, "")},
		{name: "the clock of logs is slow", caughtBy: "Logs/timestamps do not decrease", config: replacing(`(?m)^\d{4}`, "1999")},
		{name: "a log is never reopened", caughtBy: "Logs/a renamed log continues in a new file after ReopenContainerLog", runtime: func(s *spoiled, _ *fake.Runtime) {
			s.reopen = func(err error) error { return err }
		}},
		{name: "a log is reopened empty", caughtBy: "Logs/reopening a log that was not renamed continues it", config: onLog(os.O_APPEND|os.O_TRUNC, same)},
		{name: "any log can be reopened", caughtBy: "Logs/a log can be reopened only while its container runs", runtime: func(s *spoiled, _ *fake.Runtime) {
			s.reopen = func(err error) error { return err }
		}},
		{name: "every container has a log", caughtBy: "Logs/without log_path there is no log", runtime: func(s *spoiled, _ *fake.Runtime) {
			s.create = func(c *runtimeapi.ContainerConfig) error { c.LogPath = "always.log"; return nil }
		}},
		{name: "a log begins anew", caughtBy: "Logs/a log's folder is created, and an existing log is appended to", config: onLog(os.O_APPEND|os.O_TRUNC, same)},
		{name: "a folder has one log", caughtBy: "Logs/two containers with logs in one folder do not mix them", runtime: func(s *spoiled, _ *fake.Runtime) {
			s.create = func(c *runtimeapi.ContainerConfig) error { c.LogPath = "a.log"; return nil }
		}},
	}
}

func onExecSync(edit func(stdout, stderr []byte, err error) ([]byte, []byte, error)) func(*spoiled, *fake.Runtime) {
	return func(s *spoiled, _ *fake.Runtime) {
		s.execSync = func(ctx context.Context, _ []string, timeout time.Duration, run func(context.Context, time.Duration) ([]byte, []byte, error)) ([]byte, []byte, error) {
			return edit(run(ctx, timeout))
		}
	}
}

func execDefects() []defect {
	succeed := onExecSync(func(stdout, stderr []byte, _ error) ([]byte, []byte, error) { return stdout, stderr, nil })
	var mu sync.Mutex
	var before []byte
	return []defect{
		{name: "the streams of a command are one", caughtBy: "ExecSync/a command's two streams and its exit code come apart", runtime: onExecSync(
			func(stdout, stderr []byte, err error) ([]byte, []byte, error) {
				return append(stdout, stderr...), nil, err
			})},
		{name: "exit code 0 is an error", caughtBy: "ExecSync/exit code 0 is no error", runtime: onExecSync(
			func(stdout, stderr []byte, _ error) ([]byte, []byte, error) { return stdout, stderr, &cri.ExitError{} })},
		{name: "output ends after 64 KiB", caughtBy: "ExecSync/a mebibyte of output comes whole", runtime: onExecSync(
			func(stdout, stderr []byte, err error) ([]byte, []byte, error) {
				return stdout[:min(len(stdout), 64<<10)], stderr, err
			})},
		{name: "output is UTF-8", caughtBy: "ExecSync/output comes as it was written", runtime: onExecSync(
			func(stdout, stderr []byte, err error) ([]byte, []byte, error) {
				return bytes.ToValidUTF8(stdout, []byte("?")), stderr, err
			})},
		{name: "commands have no environment", caughtBy: "ExecSync/a command has the container's environment and folder, and no input", runtime: func(s *spoiled, _ *fake.Runtime) {
			s.create = func(c *runtimeapi.ContainerConfig) error { c.Envs = nil; return nil }
		}},
		{name: "commands write to the log", caughtBy: "ExecSync/a command's output is not in the container's log", runtime: logExec},
		{name: "timeouts are ignored", caughtBy: "ExecSync/a command that exceeds its timeout is killed with a timeout error", runtime: func(s *spoiled, _ *fake.Runtime) {
			s.execSync = func(ctx context.Context, _ []string, _ time.Duration, run func(context.Context, time.Duration) ([]byte, []byte, error)) ([]byte, []byte, error) {
				return run(ctx, 0)
			}
		}},
		{name: "a caller that left has success", caughtBy: "ExecSync/a cancelled call returns at once, and the container continues", runtime: succeed},
		{name: "a command takes its whole timeout", caughtBy: "ExecSync/a command in time does not wait for its timeout", runtime: func(s *spoiled, _ *fake.Runtime) {
			s.execSync = func(ctx context.Context, _ []string, timeout time.Duration, run func(context.Context, time.Duration) ([]byte, []byte, error)) ([]byte, []byte, error) {
				time.Sleep(timeout)
				return run(context.WithoutCancel(ctx), timeout)
			}
		}},
		{name: "a command has the output of another", caughtBy: "ExecSync/commands run side by side", runtime: onExecSync(
			func(stdout, stderr []byte, err error) ([]byte, []byte, error) {
				mu.Lock()
				defer mu.Unlock()
				if before == nil {
					before = stdout
				}
				return before, stderr, err
			})},
		{name: "a command ends well with its container", caughtBy: "ExecSync/a command ends with its container", runtime: succeed},
		{name: "a missing command exits with 127", caughtBy: "ExecSync/a missing command is an error, not an exit code", runtime: onExecSync(
			func(stdout, stderr []byte, err error) ([]byte, []byte, error) {
				if err != nil {
					err = &cri.ExitError{Code: 127}
				}
				return stdout, stderr, err
			})},
		{name: "nothing is a command", caughtBy: "ExecSync/an empty command is an error", runtime: succeed},
		{name: "a dead container runs commands", caughtBy: "ExecSync/no command runs in a stopped container", runtime: succeed},
	}
}

// logExec makes commands also write to the log of their container.
func logExec(s *spoiled, rt *fake.Runtime) {
	var container string
	s.created = func(_ *runtimeapi.ContainerConfig, id string) { container = id }
	s.execSync = func(ctx context.Context, _ []string, timeout time.Duration, run func(context.Context, time.Duration) ([]byte, []byte, error)) ([]byte, []byte, error) {
		stdout, stderr, err := run(ctx, timeout)
		response, statusErr := rt.ContainerStatus(ctx, container, false)
		if statusErr != nil {
			return nil, nil, statusErr
		}
		file, openErr := os.OpenFile(response.GetStatus().GetLogPath(), os.O_APPEND|os.O_WRONLY, 0)
		if openErr != nil {
			return nil, nil, openErr
		}
		defer file.Close()
		print(file, "2026-01-02T15:04:05Z stdout F out\n")
		return stdout, stderr, err
	}
}

// onExec replaces the programs of commands.
func onExec(edit func(run fake.Program, err error) (fake.Program, error)) func(*fake.Config) {
	return func(cfg *fake.Config) {
		cfg.Exec = func(ctx context.Context, p *fake.Process) (fake.Program, error) { return edit(Programs(ctx, p)) }
	}
}

func sessionDefects() []defect {
	deaf := func(run fake.Program, err error) (fake.Program, error) {
		return func(ctx context.Context, p *fake.Process) int {
			p.Stdin = strings.NewReader("")
			p.Resize = nil
			return run(ctx, p)
		}, err
	}
	return []defect{
		{name: "sessions end with 0", caughtBy: "Streaming/exec: a command's streams and its exit code come over the session", config: onExec(
			func(run fake.Program, err error) (fake.Program, error) {
				return func(ctx context.Context, p *fake.Process) int { run(ctx, p); return 0 }, err
			})},
		{name: "input does not arrive", caughtBy: "Streaming/exec: input reaches the command, and its end too", config: onExec(deaf)},
		{name: "terminals lose stderr", caughtBy: "Streaming/exec: a terminal has one output", config: onExec(
			func(run fake.Program, err error) (fake.Program, error) {
				return func(ctx context.Context, p *fake.Process) int {
					p.Stderr = io.Discard
					return run(ctx, p)
				}, err
			})},
		{name: "terminals have no size", caughtBy: "Streaming/exec: a terminal has the size that the client sends", config: onExec(deaf)},
		{name: "every command is there", caughtBy: "Streaming/exec: a missing command ends the session with an error", config: onExec(
			func(run fake.Program, err error) (fake.Program, error) {
				if err != nil {
					run = fake.Exit(127)
				}
				return run, nil
			})},
		{name: "URLs can be used again", caughtBy: "Streaming/exec: a URL is good for one session", runtime: remint},
		{name: "containers end with their clients", caughtBy: "Streaming/exec: a client that leaves does not disturb the container", runtime: func(s *spoiled, rt *fake.Runtime) {
			var container string
			s.created = func(_ *runtimeapi.ContainerConfig, id string) { container = id }
			s.session = func(ctx context.Context, url string, run func(string) (int, error)) (int, error) {
				defer func() { _ = rt.StopContainer(context.WithoutCancel(ctx), container, 0) }()
				return run(url)
			}
		}},
		{name: "exec sessions never end", caughtBy: "Streaming/exec: the session ends with the container", runtime: endless},
		{name: "attach sessions never end", caughtBy: "Streaming/attach: the session ends with the container", runtime: endless},
		{name: "one client has the output", caughtBy: "Streaming/attach: every client gets the output", runtime: attachToTwin},
		{name: "any request is good", caughtBy: "Streaming/exec and attach: a request without streams, or with a terminal's stderr, is refused", runtime: func(s *spoiled, _ *fake.Runtime) {
			s.exec = func(r *runtimeapi.ExecRequest) string { r.Stdout, r.Tty = true, false; return "" }
		}},
		{name: "attach takes any request", caughtBy: "Streaming/exec and attach: a request without streams, or with a terminal's stderr, is refused", runtime: func(s *spoiled, _ *fake.Runtime) {
			s.attach = func(r *runtimeapi.AttachRequest) string { r.Stdout, r.Tty = true, false; return "" }
		}},
		{name: "dead containers have URLs", caughtBy: "Streaming/exec and attach need a running container", runtime: func(s *spoiled, _ *fake.Runtime) {
			s.attach = func(*runtimeapi.AttachRequest) string { return "http://localhost/" }
		}},
		{name: "containers do not read", caughtBy: "Streaming/attach: a client gets new output, and its input arrives", runtime: func(s *spoiled, _ *fake.Runtime) {
			s.create = func(c *runtimeapi.ContainerConfig) error { c.Stdin = false; return nil }
		}},
		{name: "input never ends", caughtBy: "Streaming/attach: with stdin_once the first client's end of input is the container's", runtime: func(s *spoiled, _ *fake.Runtime) {
			s.create = func(c *runtimeapi.ContainerConfig) error { c.StdinOnce = false; return nil }
		}},
		{name: "input always ends", caughtBy: "Streaming/attach: a client that leaves does not disturb the container", runtime: func(s *spoiled, _ *fake.Runtime) {
			s.create = func(c *runtimeapi.ContainerConfig) error { c.StdinOnce = c.Stdin; return nil }
		}},
		{name: "ports do not respond", caughtBy: "Streaming/port-forward: a listener in the pod responds", config: func(cfg *fake.Config) {
			cfg.Ports = func(context.Context, fake.PodIdentity, int) (net.Conn, error) {
				near, _ := net.Pipe()
				return near, nil
			}
		}},
		{name: "everything listens", caughtBy: "Streaming/port-forward: a port without a listener is an error of the connection", config: func(cfg *fake.Config) {
			cfg.Ports = func(context.Context, fake.PodIdentity, int) (net.Conn, error) {
				near, far := net.Pipe()
				return near, far.Close()
			}
		}},
		{name: "stopped sandboxes have ports", caughtBy: "Streaming/port-forward needs a ready sandbox", runtime: func(s *spoiled, _ *fake.Runtime) {
			s.forward = func(*runtimeapi.PortForwardRequest) string { return "http://localhost/" }
		}},
	}
}

// remint makes a used URL valid again: the request gets a new token.
func remint(s *spoiled, rt *fake.Runtime) {
	var request *runtimeapi.ExecRequest
	s.exec = func(r *runtimeapi.ExecRequest) string { request = r; return "" }
	s.session = func(ctx context.Context, url string, run func(string) (int, error)) (int, error) {
		if fresh, err := rt.Exec(ctx, request); err == nil {
			url = fresh.GetUrl()
		}
		return run(url)
	}
}

// endless makes sessions without an end.
func endless(s *spoiled, _ *fake.Runtime) {
	var over atomic.Bool
	s.stop = func(ctx context.Context, id string, grace time.Duration) error {
		over.Store(true)
		return s.RuntimeService.StopContainer(ctx, id, grace)
	}
	s.session = func(ctx context.Context, url string, run func(string) (int, error)) (int, error) {
		code, err := run(url)
		if over.Load() {
			<-ctx.Done()
			return 0, ctx.Err()
		}
		return code, err
	}
}

// attachToTwin gives each container a twin; the second client attaches to the twin.
func attachToTwin(s *spoiled, rt *fake.Runtime) {
	var twin string
	var clients atomic.Int32
	s.created = func(config *runtimeapi.ContainerConfig, id string) {
		config = copied(config)
		config.Metadata.Name, config.LogPath = "twin", ""
		ctx := context.Background()
		list, err := rt.ListContainers(ctx, &runtimeapi.ContainerFilter{Id: id})
		if err != nil || len(list) != 1 {
			return
		}
		pod, err := rt.PodSandboxStatus(ctx, list[0].PodSandboxId, false)
		if err != nil {
			return
		}
		sandbox := &runtimeapi.PodSandboxConfig{Metadata: pod.Status.Metadata}
		if twin, err = rt.CreateContainer(ctx, list[0].PodSandboxId, config, sandbox); err == nil {
			_ = rt.StartContainer(ctx, twin)
		}
	}
	s.attach = func(r *runtimeapi.AttachRequest) string {
		if clients.Add(1) == 2 {
			r.ContainerId = twin
		}
		return ""
	}
}
