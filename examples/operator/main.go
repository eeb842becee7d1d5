// Command operator embeds podwright in a controller. It runs the pods of Workload objects
// (crd.yaml) on a container runtime and writes their statuses to the objects. It needs neither
// node nor kubelet. The runtime may be on another machine, through a forwarded unix socket (ssh -L
// /tmp/r.sock:/run/containerd/containerd.sock machine). Fields that need files of the operator's
// machine are refused by name. Pods continue to run if the operator is killed or the API server is
// unavailable.
//
// Several operators can share a runtime, each with a -name of its own, also with examples/kubelet
// and examples/edge: each sees only its own pods. A second operator with the same name is refused.
// Do not use the runtime of an upstream kubelet: it removes all pods that are not its own.
package main

import (
	"context"
	"flag"
	"fmt"
	"log/slog"
	"os"
	"os/signal"
	"path/filepath"
	"syscall"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/tools/clientcmd"

	"github.com/podwright/podwright/cri"
	"github.com/podwright/podwright/cri/images"
	"github.com/podwright/podwright/cri/pods"
	"github.com/podwright/podwright/cri/podsyncer"
	"github.com/podwright/podwright/probe"
	"github.com/podwright/podwright/probe/exec"
	"github.com/podwright/podwright/probe/httpget"
	"github.com/podwright/podwright/probe/tcpsocket"
	"github.com/podwright/podwright/status/checkpoint"
	"github.com/podwright/podwright/status/writer"
	"github.com/podwright/podwright/syncloop"
	"github.com/podwright/podwright/syncloop/podsource"
)

func main() {
	name := flag.String("name", "", "spec.runner of the workloads to run (required)")
	kubeconfig := flag.String("kubeconfig", "", "kubeconfig of the API server; default: the operator's own cluster")
	endpoint := flag.String("runtime", "unix:///run/containerd/containerd.sock", "endpoint of the container runtime")
	state := flag.String("state", "/var/lib/podwright-operator", "folder for the state of pods")
	logs := flag.String("logs", "/var/log/pods", "folder for container logs, on the runtime's machine")
	flag.Parse()
	if *name == "" {
		must(0, fmt.Errorf("-name is required"))
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()

	must(0, os.MkdirAll(*state, 0o750))

	// Desired pods and statuses: the workloads of the API server.
	merger := must(podsource.NewMerger(podsource.MergerConfig{Event: event}))
	client := must(dynamic.NewForConfig(must(clientcmd.BuildConfigFromFlags("", *kubeconfig))))
	workloads := newWorkloads(client, *name, func(uid types.UID) string { return filepath.Join(*state, string(uid)+".spec.json") })
	source := must(podsource.FromSeq(merger, "api", workloads.sets))

	// Running the pods.
	runtime := must(cri.DialRuntime(ctx, cri.ClientConfig{Endpoint: *endpoint}))
	service := must(cri.DialImages(ctx, cri.ClientConfig{Endpoint: *endpoint}))
	kept := func(uid types.UID) string { return filepath.Join(*state, string(uid)+".json") }
	syncer := must(podsyncer.New(podsyncer.Config{
		Pods: pods.Config{
			Owner:   cri.Owner{Name: "operator-" + *name},
			Runtime: runtime, RuntimeName: runtime.Name(), LogRoot: *logs,
			Images: must(images.New(images.Config{Service: service, Event: event})),
		},
		Probes: probe.Config{Probers: map[probe.Handler]probe.Prober{
			probe.Exec: must(exec.New(exec.Config{Runtime: runtime})), probe.HTTPGet: must(httpget.New(httpget.Config{})), probe.TCPSocket: tcpsocket.New(tcpsocket.Config{}),
		}},
		Checkpoint: must(checkpoint.New(checkpoint.Config{File: kept})),
		Statuses:   writer.Config{Sinks: []writer.NamedSink{{Name: "api", Sink: workloads}}},
		Loop:       syncloop.Config{Pods: merger, Sources: map[string]syncloop.EventSource{"api": source}},
		Event:      event, Logger: slog.Default(),
	}))
	workloads.statuses = syncer.Statuses()
	must(0, syncer.RunWith(ctx, workloads.run))
}

func must[T any](v T, err error) T {
	if err != nil {
		slog.Error("operator", "err", err)
		os.Exit(1)
	}
	return v
}

func event(ref v1.ObjectReference, eventtype, reason, message string) {
	slog.Info(message, "workload", ref.Namespace+"/"+ref.Name, "field", ref.FieldPath, "type", eventtype, "reason", reason)
}
