package events_test

import (
	"context"

	v1 "k8s.io/api/core/v1"

	"github.com/podwright/podwright/examples/kubelet/apiserver"
	"github.com/podwright/podwright/examples/kubelet/apiserver/events"
)

// Events have limits of their own, so that many of them hold up nothing else.
func Example() {
	run := func(ctx context.Context, client *apiserver.Client, nodeName string) error {
		limited, err := client.With(apiserver.Limits{QPS: 50, Burst: 100})
		if err != nil {
			return err
		}
		recorder, err := events.New(events.Config{Client: limited, Component: "kubelet", Host: nodeName})
		if err != nil {
			return err
		}
		recorder.Event(v1.ObjectReference{APIVersion: "v1", Kind: "Node", Name: nodeName}, v1.EventTypeNormal, "Starting", "Starting kubelet.")
		return recorder.Run(ctx)
	}
	_ = run
}
