package httpget

import (
	"net/http"
	"net/url"

	"github.com/podwright/podwright/internal/podfacts"
	"github.com/podwright/podwright/probe"
	"github.com/podwright/podwright/probe/internal/network"
)

func (p *Prober) request(t probe.Target) (*http.Request, error) {
	target, err := resolve(t)
	if err != nil {
		return nil, err
	}
	header := podfacts.HTTPHeader(t.Probe.HTTPGet, "kube-probe/"+p.cfg.Version)
	return &http.Request{
		Method: http.MethodGet,
		URL:    target,
		Proto:  "HTTP/1.1", ProtoMajor: 1, ProtoMinor: 1,
		Header: header,
		Host:   header.Get("Host"), // default: the host of the URL
	}, nil
}

func resolve(t probe.Target) (*url.URL, error) {
	action := t.Probe.HTTPGet
	port, err := podfacts.Port(t.Container, action.Port)
	if err != nil {
		return nil, err
	}
	host, err := network.Host(t, action.Host)
	if err != nil {
		return nil, err
	}
	return podfacts.HTTPTarget(action, host, port), nil
}
