// Command kubelet assembles podwright's packages into a kubelet on a CRI runtime. It runs the
// static pods of a folder and, as a node of a cluster, the pods that are bound to the node.
//
//	kubelet --container-runtime-endpoint=embedded --pod-manifest-path=examples/manifests --read-only-port=10255
//	kubelet --container-runtime-endpoint=unix:///run/containerd/containerd.sock --kubeconfig=/etc/kubernetes/kubelet.conf
//
// It uses the names of the upstream kubelet's flags and configuration file. On SIGTERM or SIGINT it
// stops and leaves the pods running; only pods of the embedded runtime end with it. A second signal
// ends it at once.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"strings"
	"sync"
	"syscall"

	"github.com/podwright/podwright/cri/embedded"
	"github.com/podwright/podwright/examples/kubelet/config"
	"github.com/podwright/podwright/examples/kubelet/logging"
)

func main() {
	// The embedded runtime supervises each container with a copy of this program.
	if embedded.RunSupervisor() {
		return
	}
	saveMemory()
	os.Exit(realMain(os.Args[1:], os.Stdout, os.Stderr))
}

// realMain writes help and version to standard output, where kubeadm reads them, and the log to out.
func realMain(args []string, stdout, out io.Writer) int {
	cfg, err := config.FromArgs(args, stdout)
	if errors.Is(err, flag.ErrHelp) {
		return 0
	}
	if err != nil {
		if cfg != nil { // the log does not exist yet
			for _, warning := range cfg.Warnings {
				fmt.Fprintln(out, "kubelet: warning:", warning)
			}
		}
		fmt.Fprintln(out, "kubelet:", strings.ReplaceAll(err.Error(), "\n", "\nkubelet: "))
		return 1
	}
	logged := cfg.Kubelet.Logging
	log, setVerbosity, err := logging.New(logging.Config{Format: logged.Format, Verbosity: int(logged.Verbosity), Output: out})
	if err != nil {
		fmt.Fprintln(out, "kubelet:", err)
		return 1
	}
	ctx, stop := signalContext()
	defer stop()
	serve := func(ctx context.Context) error { return runNode(ctx, cfg, log, setVerbosity) }
	if err := locked(ctx, &cfg.Flags, log, serve); err != nil {
		log.Error("ended", "err", err)
		return 1
	}
	if runtime := cfg.Kubelet.ContainerRuntimeEndpoint; runtime == config.Embedded {
		log.Info("kubelet ended, with its pods", "runtime", runtime)
	} else {
		log.Info("kubelet ended; its pods keep running", "runtime", runtime)
	}
	return 0
}

// signalContext returns a context that is cancelled at the first SIGINT or SIGTERM. The second one
// ends the process.
func signalContext() (context.Context, context.CancelFunc) {
	ctx, cancel := context.WithCancel(context.Background())
	signals, done := make(chan os.Signal, 2), make(chan struct{})
	signal.Notify(signals, syscall.SIGINT, syscall.SIGTERM)
	go stopOnSignals(signals, done, cancel, os.Exit)
	return ctx, sync.OnceFunc(func() {
		signal.Stop(signals)
		close(done)
		cancel()
	})
}

// stopOnSignals calls stop at the first signal and exit with 1 at the second one. It returns when
// done is closed.
func stopOnSignals(signals <-chan os.Signal, done <-chan struct{}, stop func(), exit func(int)) {
	for _, act := range []func(){stop, func() { exit(1) }} {
		select {
		case <-signals:
			act()
		case <-done:
			return
		}
	}
}
