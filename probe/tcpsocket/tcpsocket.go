package tcpsocket

import (
	"context"
	"errors"
	"fmt"
	"net"
	"strconv"

	"github.com/podwright/podwright/internal/podfacts"
	"github.com/podwright/podwright/probe"
	"github.com/podwright/podwright/probe/internal/network"
)

// Config configures a Prober. The zero value is valid.
type Config struct {
	// DialContext connects to containers. Default: a direct connection. It is for pods that this
	// process cannot reach directly. It must return soon after its context is done.
	DialContext func(ctx context.Context, network, address string) (net.Conn, error)
}

// Prober executes tcpSocket probes. It is safe for concurrent use.
type Prober struct {
	cfg Config
}

// New returns a Prober.
func New(cfg Config) *Prober { return &Prober{cfg: cfg} }

// Probe implements probe.Prober.
func (p *Prober) Probe(ctx context.Context, t probe.Target) (probe.Result, error) {
	if t.Probe == nil || t.Probe.TCPSocket == nil {
		return probe.Result{}, errors.New("the probe has no tcpSocket handler")
	}
	address, err := resolve(t)
	if err != nil {
		return probe.Result{}, err
	}
	own, cancel := network.Bound(ctx, t)
	defer cancel()
	conns := network.Conns{Connect: p.cfg.DialContext}
	defer conns.Close()
	if _, err := conns.Dial(own, "tcp", address); err != nil {
		return network.Failure(ctx, own, err, "", fmt.Sprintf("dial tcp %s: i/o timeout", address))
	}
	return probe.Result{Verdict: probe.Success, Output: "connected to " + address}, nil
}

func resolve(t probe.Target) (string, error) {
	action := t.Probe.TCPSocket
	port, err := podfacts.Port(t.Container, action.Port)
	if err != nil {
		return "", err
	}
	host, err := network.Host(t, action.Host)
	if err != nil {
		return "", err
	}
	return net.JoinHostPort(host, strconv.Itoa(port)), nil
}
