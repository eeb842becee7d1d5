package main

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"maps"
	"strings"

	"k8s.io/apimachinery/pkg/types"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/podwright/podwright/cri/pods/labels"
	"github.com/podwright/podwright/cri/pods/observe"
)

// barePods implements plegtest.Pods with CRI calls. The pods have a kubelet's labels.
type barePods struct {
	b *bare
	o *observe.Observer
}

// Start implements plegtest.Pods.
func (p barePods) Start(ctx context.Context, uid types.UID) error {
	named := map[string]string{labels.PodName: string(uid), labels.PodNamespace: "bench", labels.PodUID: string(uid)}
	sandbox := &runtimeapi.PodSandboxConfig{
		Metadata: &runtimeapi.PodSandboxMetadata{Name: string(uid), Namespace: "bench", Uid: string(uid)},
		Labels:   named,
		Linux:    &runtimeapi.LinuxPodSandboxConfig{},
	}
	id, err := p.b.client.RunPodSandbox(ctx, sandbox, "")
	if err != nil {
		return fmt.Errorf("run a sandbox: %w", err)
	}
	own := maps.Clone(named)
	own[labels.ContainerName] = "main"
	if _, err = p.b.run(ctx, id, sandbox, &runtimeapi.ContainerConfig{Metadata: &runtimeapi.ContainerMetadata{Name: "main"}, Labels: own, Command: command}); err != nil {
		return fmt.Errorf("run a container: %w", err)
	}
	return nil
}

// Exit implements plegtest.Pods.
func (p barePods) Exit(ctx context.Context, uid types.UID) error {
	s, err := p.o.PodStatus(ctx, uid)
	if err != nil {
		return err
	}
	var errs []error
	for _, c := range s.Running() {
		errs = append(errs, p.b.client.StopContainer(ctx, c.ID.ID, 0))
	}
	return errors.Join(errs...)
}

// Remove implements plegtest.Pods.
func (p barePods) Remove(ctx context.Context, uid types.UID) error {
	s, err := p.o.PodStatus(ctx, uid)
	if err != nil {
		return err
	}
	var errs []error
	for _, sb := range s.Sandboxes {
		errs = append(errs, p.b.stop(ctx, sb.ID))
	}
	return errors.Join(errs...)
}

func lines(text string) iter.Seq[string] { return strings.SplitSeq(strings.TrimSpace(text), "\n") }
