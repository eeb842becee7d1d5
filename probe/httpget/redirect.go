package httpget

import (
	"context"
	"crypto/tls"
	"errors"
	"io"
	"net"
	"net/http"
	"net/url"
	"strings"

	"github.com/podwright/podwright/probe"
	"github.com/podwright/podwright/probe/internal/network"
)

var errRedirects = errors.New("stopped after 10 redirects")

// maxHostShown is the maximum size of a redirect's host in a result.
const maxHostShown = 253

// checkRedirect follows redirects within a host.
func (e *exchange) checkRedirect(to *http.Request, via []*http.Request) error {
	host := to.URL.Hostname()
	switch {
	case !strings.EqualFold(host, via[0].URL.Hostname()):
		e.foreignHost = strings.ToValidUTF8(host[:min(len(host), maxHostShown)], "")
		return http.ErrUseLastResponse
	case len(via) > maxRedirects:
		return errRedirects
	default:
		return nil
	}
}

func (e *exchange) failure(caller, own context.Context, t probe.Target, err error) (probe.Result, error) {
	if u, ok := errors.AsType[*url.Error](err); ok {
		err = u.Err // the URL may come from the server
	}
	if tried, _ := e.conns.Dialed(); !tried && own.Err() == nil {
		return probe.Result{}, err // the request could not be sent
	}
	return network.Failure(caller, own, t, err, plain(err))
}

// plain returns a text for an error without data of the server, which may be secret.
func plain(err error) string {
	var (
		socket *net.OpError
		name   *net.DNSError
		record tls.RecordHeaderError
		alert  tls.AlertError
	)
	switch {
	case errors.Is(err, http.ErrSchemeMismatch):
		return "the server does not use TLS"
	case errors.Is(err, errRedirects):
		return errRedirects.Error()
	case errors.As(err, &socket), errors.As(err, &name), errors.As(err, &alert):
		return err.Error()
	case errors.As(err, &record):
		return "TLS handshake: " + record.Msg
	case errors.Is(err, io.EOF), errors.Is(err, io.ErrUnexpectedEOF), strings.HasSuffix(err.Error(), "server closed idle connection"):
		return "the connection was closed before the response"
	case strings.HasPrefix(err.Error(), "tls: "), strings.HasPrefix(err.Error(), "remote error: tls: "):
		return err.Error()
	default:
		return "no valid HTTP response"
	}
}
