package httpget

import (
	"bytes"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"time"

	"github.com/podwright/podwright/probe"
	"github.com/podwright/podwright/probe/internal/network"
)

const (
	// maxBody is the maximum number of bytes read from a body.
	maxBody = 10 << 10
	// maxHeader is the maximum size of the header of a response.
	maxHeader    = 256 << 10
	maxRedirects = 10
	// closeWait bounds the wait for the server to close the connection after a response.
	closeWait = 10 * time.Millisecond
)

// Config configures a Prober. The zero value is valid.
type Config struct {
	// Version is the "major.minor" in the User-Agent of requests, "kube-probe/1.36". Default:
	// 1.36.
	Version string
	// DialContext connects to containers. Default: a direct connection. It is for pods that this
	// process cannot reach directly. It must return soon after its context is done.
	DialContext func(ctx context.Context, network, address string) (net.Conn, error)
}

// Prober executes httpGet probes. It is safe for concurrent use.
type Prober struct {
	cfg       Config
	closeWait time.Duration
}

// New returns a Prober. It returns an error for an invalid Config.Version.
func New(cfg Config) (*Prober, error) {
	version, err := network.Version(cfg.Version)
	if err != nil {
		return nil, fmt.Errorf("httpget: Config.Version %w", err)
	}
	cfg.Version = version
	return &Prober{cfg: cfg, closeWait: closeWait}, nil
}

// Probe implements probe.Prober.
func (p *Prober) Probe(ctx context.Context, t probe.Target) (probe.Result, error) {
	if t.Probe == nil || t.Probe.HTTPGet == nil {
		return probe.Result{}, errors.New("the probe has no httpGet handler")
	}
	request, err := p.request(t)
	if err != nil {
		return probe.Result{}, err
	}
	own, cancel := network.Bound(ctx, t)
	defer cancel()
	e := &exchange{url: request.URL.Redacted(), conns: network.Conns{Connect: p.cfg.DialContext, Patience: p.closeWait}}
	defer e.conns.Close()
	response, err := e.client().Do(request.WithContext(own))
	if err != nil {
		return e.failure(ctx, own, err)
	}
	defer response.Body.Close()
	var body bytes.Buffer
	to := io.Discard
	if isRedirect(response.StatusCode) {
		to = &body
	}
	_, err = io.Copy(to, io.LimitReader(response.Body, maxBody))
	return e.verdict(ctx, own, response.StatusCode, body.Bytes(), err)
}

// verdict returns the result of a response. err is the error that interrupted its body. A good
// status after the end of own, the context of this execution, is too late: a server may send it
// in reaction to the cancelled request.
func (e *exchange) verdict(caller, own context.Context, status int, body []byte, err error) (probe.Result, error) {
	if err == nil {
		err = own.Err()
	}
	if err == nil || status >= http.StatusBadRequest {
		return judge(status, body), nil
	}
	return network.Failure(caller, own, err, fmt.Sprintf("HTTP status %d, but the response was interrupted", status), e.get(lateBody))
}

type exchange struct {
	url   string // of the request, without a password
	conns network.Conns
}

func (e *exchange) client() *http.Client {
	protocols := &http.Protocols{}
	protocols.SetHTTP1(true)
	return &http.Client{
		Transport: &http.Transport{
			DialContext:            e.conns.Dial,
			DisableKeepAlives:      true,
			DisableCompression:     true,
			TLSClientConfig:        &tls.Config{InsecureSkipVerify: true},
			Protocols:              protocols,
			MaxResponseHeaderBytes: maxHeader,
			ReadBufferSize:         2 << 10,
			WriteBufferSize:        2 << 10,
		},
		CheckRedirect: checkRedirect,
	}
}

// judge returns the result of a complete response. Only the body of a redirect is part of it, as
// in upstream.
func judge(status int, body []byte) probe.Result {
	switch {
	case status < http.StatusOK || status >= http.StatusBadRequest:
		return network.Failed("HTTP probe failed with statuscode: %d", status)
	case isRedirect(status):
		return probe.Result{Verdict: probe.Warning, Output: fmt.Sprintf("Probe terminated redirects, Response body: %s", body)}
	default:
		return probe.Result{Verdict: probe.Success, Output: fmt.Sprintf("HTTP status %d", status)}
	}
}

func isRedirect(status int) bool {
	return status >= http.StatusMultipleChoices && status < http.StatusBadRequest
}
