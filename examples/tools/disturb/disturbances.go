package main

import (
	"context"
	"io"
	"net/http"
	"os"
	"syscall"
	"time"

	"golang.org/x/sync/errgroup"
)

// disturbance is applied to scenes that share the control plane.
type disturbance struct {
	name string
	rest time.Duration // observation after the disturbance
	// expiring selects client certificates that end during the disturbance.
	expiring bool
	apply    func(ctx context.Context, scenes []*scene) error
}

func disturbances() []disturbance {
	return []disturbance{
		{name: "agent-term", rest: 20 * time.Second, apply: each(restartAgent(syscall.SIGTERM))},
		{name: "agent-kill", rest: 20 * time.Second, apply: each(restartAgent(syscall.SIGKILL))},
		{name: "agent-upgrade", rest: 20 * time.Second, apply: each(upgradeAgent)},
		{name: "containerd-term", rest: 20 * time.Second, apply: each(restartRuntime("stop", 0))},
		{name: "containerd-kill", rest: 20 * time.Second, apply: each(restartRuntime("kill", 0))},
		{name: "containerd-away", rest: 25 * time.Second, apply: each(restartRuntime("stop", 30*time.Second))},
		{name: "apiserver-restart", rest: 20 * time.Second, apply: restartServer(3 * time.Second)},
		{name: "apiserver-away", rest: 30 * time.Second, apply: restartServer(time.Minute)},
		{name: "apiserver-certificate", rest: 150 * time.Second, expiring: true, apply: outliveCertificates},
		{name: "agent-stopped", rest: 25 * time.Second, apply: each(suspendAgent(55 * time.Second))},
		{name: "node-deleted", rest: 75 * time.Second, apply: each(deleteNode)},
	}
}

// each applies f to all scenes at the same time.
func each(f func(ctx context.Context, s *scene) error) func(ctx context.Context, scenes []*scene) error {
	return func(ctx context.Context, scenes []*scene) error {
		all, ctx := errgroup.WithContext(ctx)
		for _, s := range scenes {
			all.Go(func() error { return f(ctx, s) })
		}
		return all.Wait()
	}
}

func restartAgent(sig syscall.Signal) func(ctx context.Context, s *scene) error {
	return func(ctx context.Context, s *scene) error {
		s.agent.stop(sig)
		return s.agent.start(ctx)
	}
}

// upgradeAgent replaces the file of the running kubelet and restarts the kubelet.
func upgradeAgent(ctx context.Context, s *scene) error {
	if err := copyFile(s.kubelet.program, s.path("next")); err != nil {
		return err
	}
	if err := os.Rename(s.path("next"), s.path("kubelet")); err != nil {
		return err
	}
	return restartAgent(syscall.SIGTERM)(ctx, s)
}

func copyFile(from, to string) error {
	in, err := os.Open(from)
	if err != nil {
		return err
	}
	defer in.Close()
	out, err := os.OpenFile(to, os.O_CREATE|os.O_WRONLY, 0o755)
	if err != nil {
		return err
	}
	if _, err := io.Copy(out, in); err != nil {
		_ = out.Close()
		return err
	}
	return out.Close()
}

func suspendAgent(d time.Duration) func(ctx context.Context, s *scene) error {
	return func(ctx context.Context, s *scene) error {
		s.agent.signal(syscall.SIGSTOP)
		defer s.agent.signal(syscall.SIGCONT)
		return sleep(ctx, d)
	}
}

func restartRuntime(verb string, away time.Duration) func(ctx context.Context, s *scene) error {
	return func(ctx context.Context, s *scene) error {
		if err := s.runtimes(ctx, "/"+s.rt.key+"/"+verb); err != nil {
			return err
		}
		if err := sleep(ctx, away); err != nil {
			return err
		}
		return s.runtimes(ctx, "/"+s.rt.key+"/start")
	}
}

func restartServer(away time.Duration) func(ctx context.Context, scenes []*scene) error {
	return func(ctx context.Context, scenes []*scene) error {
		plane := scenes[0].plane
		_, err := plane(ctx, http.MethodPost, "/kube-apiserver/stop")
		if err == nil {
			err = sleep(ctx, away)
		}
		// The clean-up needs the API server, too.
		if _, startErr := plane(context.WithoutCancel(ctx), http.MethodPost, "/kube-apiserver/start"); err == nil {
			err = startErr
		}
		return err
	}
}

// outliveCertificates stops the API server until 5 s after the end of the last client certificate.
func outliveCertificates(ctx context.Context, scenes []*scene) error {
	last := time.Now()
	for _, s := range scenes {
		if s.expires.After(last) {
			last = s.expires
		}
	}
	return restartServer(time.Until(last)+5*time.Second)(ctx, scenes)
}

func deleteNode(ctx context.Context, s *scene) error { return s.remove(ctx, "/api/v1/nodes/"+s.node) }
