package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"github.com/podwright/podwright/examples/tools/testbed/internal/env"
)

type session struct {
	cache    cache
	report   *reporter
	run      record
	watchdog *watchdog
	registry *imageRegistry
	control  *httpServer
	runtimes []*containerd

	controlPlane *controlPlane // nil without a control plane
}

// runWithRuntimes sets up the runtimes, runs the command, and tears down, even after an error.
func runWithRuntimes(ctx context.Context, opts options, signals <-chan os.Signal, report *reporter) (int, error) {
	if _, err := exec.LookPath(opts.argv[0]); err != nil {
		return exitNotFound, err
	}
	c, err := openCache()
	if err != nil {
		return exitSetup, err
	}
	s := &session{cache: c, report: report}
	// signals buffers signals that arrive now. This context cancels the set-up.
	setup, stop := signal.NotifyContext(ctx, unix.SIGINT, unix.SIGTERM, unix.SIGHUP)
	defer stop()
	err = s.setUp(setup, opts)
	if err == nil {
		err = context.Cause(setup)
	}
	if err == nil && len(signals) > 0 { // from before NotifyContext
		err = fmt.Errorf("%v during the set-up", <-signals)
	}
	if err != nil {
		return exitSetup, errors.Join(err, s.tearDown(ctx))
	}
	stop()
	report.line("containerd %s and %s are ready: %s", s.runtimes[0].Version, s.runtimes[1].Version, strings.Join(opts.argv, " "))
	code, err := command{
		argv: opts.argv, environ: s.environ(os.Environ()), signals: signals, report: report,
		started: s.commandStarted,
	}.run()
	return code, errors.Join(err, s.tearDown(ctx))
}

func (s *session) setUp(ctx context.Context, opts options) error {
	t, err := installer{cache: s.cache, report: s.report}.ensure(ctx)
	if err != nil {
		return err
	}
	if err := s.begin(ctx); err != nil {
		return err
	}
	logs, err := s.logs(opts)
	if err != nil {
		return err
	}
	if err := s.report.step("build images", func() error { return s.serveImages(ctx, t) }); err != nil {
		return err
	}
	if err := s.report.step("start containerd 1 and 2", func() error { return s.startRuntimes(ctx, t, logs) }); err != nil {
		return err
	}
	if err := s.report.step("pull images", func() error { return s.pull(ctx) }); err != nil || !opts.controlPlane {
		return err
	}
	return s.addControlPlane(ctx, opts)
}

func (s *session) addControlPlane(ctx context.Context, opts options) error {
	logs, err := s.logs(opts)
	if err != nil {
		return err
	}
	return s.report.step("start the control plane", func() error { return s.startControlPlane(ctx, logs) })
}

func (s *session) logs(opts options) (string, error) {
	if opts.logs == "" {
		return s.run.Dir, nil
	}
	logs, err := filepath.Abs(opts.logs)
	if err != nil {
		return "", err
	}
	if opts.all { // several testbeds write there
		logs = filepath.Join(logs, s.run.ID)
	}
	return logs, os.MkdirAll(logs, 0o755)
}

// begin cleans up after dead runs and records this one.
func (s *session) begin(ctx context.Context) error {
	return s.cache.locked(ctx, "runs", func() error {
		if err := s.cache.cleanStale(ctx, s.report); err != nil {
			s.report.line("cleaning up after an earlier run: %v", err)
		}
		run, err := s.cache.newRun(ctx, "v1", "v2")
		if err != nil {
			return err
		}
		s.run = run
		if s.watchdog, err = startWatchdog(run.ID); err != nil {
			return err
		}
		if s.run.Watchdog, err = identify(s.watchdog.cmd.Process.Pid); err != nil {
			return err
		}
		if err := s.cache.save(s.run); err != nil {
			return err
		}
		if err := os.Mkdir(s.run.Dir, 0o711); err != nil {
			return err
		}
		if err := os.Mkdir(s.tmpDir(), 0o700); err != nil {
			return err
		}
		return os.Chmod(s.tmpDir(), 0o1777) // independent of the umask
	})
}

func (s *session) tmpDir() string    { return filepath.Join(s.run.Dir, "t") }
func (s *session) ctlSocket() string { return filepath.Join(s.run.Dir, "ctl.sock") }

func (s *session) serveImages(ctx context.Context, t tools) error {
	images, err := testImages(ctx, s.cache, t)
	if err != nil {
		return err
	}
	if s.registry, err = startRegistry(ctx); err != nil {
		return err
	}
	return s.registry.push(ctx, images)
}

func (s *session) startRuntimes(ctx context.Context, t tools, logs string) error {
	snapshotter, err := chooseSnapshotter(s.run.Dir)
	if err != nil {
		return err
	}
	restricted, err := lacksSysResource()
	if err != nil {
		return err
	}
	for i, bin := range []string{t.containerd1, t.containerd2} {
		key := []string{"v1", "v2"}[i]
		s.runtimes = append(s.runtimes, &containerd{report: s.report, instance: instance{
			Key: key, Bin: bin, Dir: filepath.Join(s.run.Dir, key), Network: s.run.Networks[i],
			LogFile: filepath.Join(logs, "containerd-"+key+".log"),
			Runc:    t.runc, CNIBin: t.cniBin, SandboxImage: s.registry.ref(imagePause), Registry: s.registry.addr,
			Snapshotter: snapshotter, RestrictOOM: restricted, WithPortmap: t.portmap,
			SearchPath: filepath.Dir(bin) + ":" + filepath.Dir(t.runc) + ":" + systemPath,
		}})
	}
	for _, rt := range s.runtimes {
		if err := rt.prepare(); err != nil {
			return err
		}
	}
	if err := s.eachRuntime(func(rt *containerd) error { return rt.start(ctx) }); err != nil {
		return err
	}
	if !t.portmap {
		s.report.line("iptables is unusable: pods get no host ports")
	}
	s.control, err = startControl(ctx, s.ctlSocket(), s.runtimes)
	return err
}

// eachRuntime runs f for all runtimes in parallel and joins the errors.
func (s *session) eachRuntime(f func(*containerd) error) error {
	errs := make(chan error, len(s.runtimes))
	for _, rt := range s.runtimes {
		go func() { errs <- f(rt) }()
	}
	var all []error
	for range s.runtimes {
		all = append(all, <-errs)
	}
	return errors.Join(all...)
}

func (s *session) pull(ctx context.Context) error {
	var refs []string
	for _, image := range []string{imagePause, imageBusybox, imageTestprog, imageTestprog2} {
		refs = append(refs, s.registry.ref(image))
	}
	return s.eachRuntime(func(rt *containerd) error {
		if err := pullAll(ctx, rt.Socket(), refs); err != nil {
			return fmt.Errorf("containerd %s: %w", rt.Key, err)
		}
		return nil
	})
}

func (s *session) environ(base []string) []string {
	out := withoutTestbedVars(base)
	for _, rt := range s.runtimes {
		out = append(out, map[string]string{"v1": env.CRIV1, "v2": env.CRIV2}[rt.Key]+"=unix://"+rt.Socket())
	}
	if s.controlPlane != nil {
		out = append(out, s.controlPlane.environ...)
	}
	return append(out,
		env.Run+"="+s.run.ID,
		env.RequireCRI+"=1",
		env.Ctl+"="+s.ctlSocket(),
		env.Registry+"="+s.registry.addr,
		env.ImagePause+"="+s.registry.ref(imagePause),
		env.ImageBusybox+"="+s.registry.ref(imageBusybox),
		env.ImageTestprog+"="+s.registry.ref(imageTestprog),
		env.ImageTestprog2+"="+s.registry.ref(imageTestprog2),
		"TMPDIR="+s.tmpDir(),
	)
}

// commandStarted records the command for the watchdog.
func (s *session) commandStarted(pid int) error {
	id, err := identify(pid)
	if err != nil {
		return fmt.Errorf("command: %w", err)
	}
	s.run.Command = id
	return s.cache.save(s.run)
}

// tearDown undoes the completed parts of setUp.
func (s *session) tearDown(ctx context.Context) error {
	begin := time.Now()
	if s.run.ID == "" {
		return nil
	}
	var errs []error
	if s.controlPlane != nil {
		errs = append(errs, s.controlPlane.close())
	}
	if s.control != nil {
		errs = append(errs, s.control.close())
	}
	pods := podLevel(ownCgroups(cgroupDirs(cgroupRoot), containerIDs(s.run.Dir)))
	_ = s.eachRuntime(func(rt *containerd) error { return s.endRuntime(ctx, rt) }) // the sweep removes remains
	if s.registry != nil {
		errs = append(errs, s.registry.close())
	}
	var left []string
	err := s.cache.locked(ctx, "runs", func() error {
		others, err := s.cache.liveRuns(s.run.ID)
		errs = append(errs, err)
		left, err = sweeper{cache: s.cache, run: s.run, exclusive: len(others) == 0, pods: pods}.sweep(ctx)
		return err
	})
	errs = append(errs, err)
	if s.watchdog != nil {
		errs = append(errs, s.watchdog.dismiss())
	}
	s.report.printEnd("torn down", begin, left)
	return errors.Join(errs...)
}

// endRuntime removes the pods if the runtime runs, then stops the runtime.
func (s *session) endRuntime(ctx context.Context, rt *containerd) error {
	var err error
	if rt.running() {
		pods, cancel := context.WithTimeout(ctx, 10*time.Second)
		defer cancel()
		err = removePods(pods, rt.Socket())
	}
	return errors.Join(err, rt.close(ctx))
}
