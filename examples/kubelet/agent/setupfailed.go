package agent

import (
	"context"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/podwright/podwright/examples/kubelet/apiserver"
	"github.com/podwright/podwright/examples/kubelet/apiserver/events"
	kubelet "github.com/podwright/podwright/examples/kubelet/node"
)

// setupEventTimeout bounds the attempt to write the event of a failed start.
const setupEventTimeout = 5 * time.Second

// setupFailed writes an event about the Node, and returns why. It uses a client of its own, because
// the failure may have come before the others were built. It only logs its own failures.
func (a *Agent) setupFailed(ctx context.Context, why error) error {
	if a.cfg.Flags.Kubeconfig == "" || ctx.Err() != nil {
		return why
	}
	ctx, cancel := context.WithTimeout(ctx, setupEventTimeout)
	defer cancel()
	name := a.cfg.Flags.NodeName
	client, err := apiserver.New(apiserver.Config{
		Kubeconfig: a.cfg.Flags.Kubeconfig, UserAgent: "podwright-kubelet/" + kubelet.Version, Dial: a.cfg.DialAPI, Logger: a.log,
	})
	if err != nil {
		return why // without a usable kubeconfig there is no server for the event
	}
	defer client.CloseConnections()
	recorder, err := events.New(events.Config{Client: client, Component: "kubelet", Host: name, Logger: a.log})
	if err == nil {
		about := v1.ObjectReference{APIVersion: "v1", Kind: "Node", Name: name, UID: types.UID(name)}
		err = recorder.Write(ctx, about, v1.EventTypeWarning, "KubeletSetupFailed", why.Error())
	}
	if err != nil {
		a.log.Warn("event about the failed start not written", "err", err)
	}
	return why
}
