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

// farewell is how long an agent that cannot begin tries to tell the API server.
const farewell = 5 * time.Second

// setupFailed writes an event about the Node, and returns why the agent ends. It has a client of
// its own, since what has failed may have come before the others. What goes wrong here is only
// logged.
func (a *Agent) setupFailed(ctx context.Context, why error) error {
	if a.cfg.Flags.Kubeconfig == "" || ctx.Err() != nil {
		return why
	}
	ctx, cancel := context.WithTimeout(ctx, farewell)
	defer cancel()
	name := a.cfg.Flags.NodeName
	client, err := apiserver.New(apiserver.Config{
		Kubeconfig: a.cfg.Flags.Kubeconfig, UserAgent: "podwright-kubelet/" + kubelet.Version, Dial: a.cfg.DialAPI, Logger: a.log,
	})
	if err != nil {
		return why // if the kubeconfig cannot be used, nobody can be told
	}
	defer client.CloseConnections()
	recorder, err := events.New(events.Config{Client: client, Component: "kubelet", Host: name, Logger: a.log})
	if err == nil {
		about := v1.ObjectReference{APIVersion: "v1", Kind: "Node", Name: name, UID: types.UID(name)}
		err = recorder.Write(ctx, about, v1.EventTypeWarning, "KubeletSetupFailed", why.Error())
	}
	if err != nil {
		a.log.Warn("the API server was not told that the kubelet cannot begin", "err", err)
	}
	return why
}
