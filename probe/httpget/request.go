package httpget

import (
	"net"
	"net/http"
	"net/url"
	"strconv"
	"strings"

	v1 "k8s.io/api/core/v1"

	"github.com/podwright/podwright/internal/podfacts"
	"github.com/podwright/podwright/probe"
	"github.com/podwright/podwright/probe/internal/network"
)

// request makes the request of a probe.
func (p *Prober) request(t probe.Target) (*http.Request, error) {
	target, err := resolve(t)
	if err != nil {
		return nil, err
	}
	header := p.header(t.Probe.HTTPGet.HTTPHeaders)
	return &http.Request{
		Method: http.MethodGet,
		URL:    target,
		Proto:  "HTTP/1.1", ProtoMajor: 1, ProtoMinor: 1,
		Header: header,
		Host:   header.Get("Host"), // "" for that of the URL
	}, nil
}

// resolve finds what to ask for.
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
	target, err := url.Parse(action.Path) // it may have a query
	if err != nil || target.Opaque != "" {
		target = &url.URL{Path: action.Path}
	}
	target.User = nil
	if !strings.HasPrefix(target.Path, "/") {
		target.Path = "/" + target.Path
		if target.RawPath != "" {
			target.RawPath = "/" + target.RawPath
		}
	}
	target.Scheme = strings.ToLower(string(action.Scheme))
	if target.Scheme == "" {
		target.Scheme = "http"
	}
	target.Host = net.JoinHostPort(host, strconv.Itoa(port))
	return target, nil
}

// header adds what every request has. An empty User-Agent or Accept of the handler
// takes ours away.
func (p *Prober) header(own []v1.HTTPHeader) http.Header {
	header := http.Header{}
	for _, h := range own {
		header.Add(h.Name, h.Value)
	}
	if _, ok := header["User-Agent"]; !ok {
		header.Set("User-Agent", "kube-probe/"+p.cfg.Version)
	}
	switch _, ok := header["Accept"]; {
	case !ok:
		header.Set("Accept", "*/*")
	case header.Get("Accept") == "":
		header.Del("Accept")
	}
	return header
}
