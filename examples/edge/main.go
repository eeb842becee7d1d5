// Command edge is a node agent to copy. It runs the pods of a folder on a container runtime, probes
// them, restarts failed containers, and publishes statuses in a file and over HTTP. It needs no API
// server. It may be killed, updated or rebooted at any time: running pods continue, and missing ones
// are started. The rest is optional: messages.go receives pods over HTTP, rollout.go replaces these
// one at a time, and kubectl.go serves logs and exec.
package main

import (
	"context"
	"flag"
	"log/slog"
	"net"
	"net/http"
	"os"
	"os/signal"
	"path/filepath"
	"syscall"
	"time"

	"golang.org/x/net/netutil"
	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/podwright/podwright/cri"
	"github.com/podwright/podwright/cri/images"
	"github.com/podwright/podwright/cri/pods"
	"github.com/podwright/podwright/cri/pods/request"
	"github.com/podwright/podwright/cri/podsyncer"
	"github.com/podwright/podwright/podworkers/stages"
	"github.com/podwright/podwright/probe"
	"github.com/podwright/podwright/probe/exec"
	"github.com/podwright/podwright/probe/grpc"
	"github.com/podwright/podwright/probe/httpget"
	"github.com/podwright/podwright/probe/tcpsocket"
	"github.com/podwright/podwright/status"
	"github.com/podwright/podwright/status/checkpoint"
	"github.com/podwright/podwright/status/filesink"
	"github.com/podwright/podwright/status/writer"
	"github.com/podwright/podwright/syncloop"
	"github.com/podwright/podwright/syncloop/podsource"
	"github.com/podwright/podwright/volume/podfolder"
)

func main() {
	endpoint := flag.String("runtime", "unix:///run/containerd/containerd.sock", "endpoint of the container runtime")
	manifests := flag.String("manifests", "/etc/edge/manifests", "folder with one pod manifest per file")
	root := flag.String("root", "/var/lib/edge", "absolute folder for the agent's state")
	listen := flag.String("listen", "127.0.0.1:8420", "listen address of statuses, messages and kubectl's requests")
	minReady := flag.Duration("min-ready", 10*time.Second, "duration of Ready after which a pod of a message counts as ready")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()

	// Desired pods.
	merger := must(podsource.NewMerger(podsource.MergerConfig{Event: event}))
	decoder := podsource.Decoder{NodeName: "edge", Check: func(p *v1.Pod) []error { return append(pods.Unsupported(p), probe.Validate(p)...) }}
	files := must(podsource.NewFileSource(podsource.FileConfig{Path: *manifests, Merger: merger, Logger: slog.Default(), Decoder: decoder}))
	messages := newMessages(merger, decoder, *root, *minReady)

	// Running them: runtime, folders, statuses, probes.
	must(0, os.MkdirAll(*root, 0o750))
	runtime := must(cri.DialRuntime(ctx, cri.ClientConfig{Endpoint: *endpoint}))
	service := must(cri.DialImages(ctx, cri.ClientConfig{Endpoint: *endpoint}))
	folders := must(podfolder.New(podfolder.Config{Root: filepath.Join(*root, "pods")}))
	shown := must(filesink.New(filesink.Config{Path: filepath.Join(*root, "status.json"), Logger: slog.Default()}))
	syncer := must(podsyncer.New(podsyncer.Config{
		Pods: pods.Config{
			Owner:   cri.Owner{Name: "edge"},
			Runtime: runtime, RuntimeName: runtime.Name(), Images: must(images.New(images.Config{Service: service, Event: event})),
			LogRoot: filepath.Join(*root, "logs"), PodDir: folders.Pod, Inputs: request.Inputs{Volumes: request.HostPaths{}},
		},
		Probes: probe.Config{Probers: map[probe.Handler]probe.Prober{
			probe.Exec: must(exec.New(exec.Config{Runtime: runtime})), probe.HTTPGet: must(httpget.New(httpget.Config{})),
			probe.TCPSocket: tcpsocket.New(tcpsocket.Config{}), probe.GRPC: must(grpc.New(grpc.Config{})),
		}},
		Stages:     must(stages.New(stages.Config{Stages: []stages.Entry{{Name: "folder", Release: stages.Gone, Stage: folders}}})),
		Checkpoint: must(checkpoint.New(checkpoint.Config{File: func(uid types.UID) string { return filepath.Join(folders.Pod(uid), "status.json") }})),
		Statuses:   writer.Config{Sinks: []writer.NamedSink{{Name: "file", Sink: shown}, {Name: "rollout", Sink: status.SinkFunc(messages.rollout.receive)}}},
		Loop:       syncloop.Config{Pods: messages.served, Sources: map[string]syncloop.EventSource{"file": files, "rollout": messages.rollout}},
		Event:      event, Logger: slog.Default(),
	}))
	allow := bearer(filepath.Join(*root, "key"))
	handler := withKubectl(messages.handler(shown, allow, syncer.Loop().Emit), syncer, runtime, allow)
	server := &http.Server{Handler: handler, BaseContext: func(net.Listener) context.Context { return ctx }, ReadTimeout: 10 * time.Second, WriteTimeout: 10 * time.Second}
	go func() { must(0, server.Serve(netutil.LimitListener(must(net.Listen("tcp", *listen)), 64))) }()
	must(0, syncer.Run(ctx)) // until a signal; the pods continue
}

func must[T any](v T, err error) T {
	if err != nil {
		slog.Error("edge", "err", err)
		os.Exit(1)
	}
	return v
}

func event(ref v1.ObjectReference, eventtype, reason, message string) {
	slog.Info(message, "pod", ref.Namespace+"/"+ref.Name, "field", ref.FieldPath, "type", eventtype, "reason", reason)
}
