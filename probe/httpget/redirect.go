package httpget

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"strings"

	"github.com/podwright/podwright/probe"
	"github.com/podwright/podwright/probe/internal/network"
)

var errRedirects = errors.New("stopped after 10 redirects")

// Texts of exceeded timeouts, equal to the texts of net/http for Client.Timeout.
const (
	lateHeader = "context deadline exceeded (Client.Timeout exceeded while awaiting headers)"
	lateBody   = "context deadline exceeded (Client.Timeout or context cancellation while reading body)"
)

// get returns the text of an error as an url.Error has it, with the URL of the first request.
func (e *exchange) get(text string) string { return fmt.Sprintf("Get %q: %s", e.url, text) }

// checkRedirect follows redirects within a host.
func checkRedirect(to *http.Request, via []*http.Request) error {
	switch {
	case !strings.EqualFold(to.URL.Hostname(), via[0].URL.Hostname()):
		return http.ErrUseLastResponse
	case len(via) > maxRedirects:
		return errRedirects
	default:
		return nil
	}
}

func (e *exchange) failure(caller, own context.Context, err error) (probe.Result, error) {
	if u, ok := errors.AsType[*url.Error](err); ok {
		err = u.Err // the URL may come from the server
	}
	if tried, _ := e.conns.Dialed(); !tried && own.Err() == nil {
		return probe.Result{}, err // the request could not be sent
	}
	return network.Failure(caller, own, err, e.get(plain(err)), e.get(lateHeader))
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
		return http.ErrSchemeMismatch.Error()
	case errors.Is(err, errRedirects):
		return errRedirects.Error()
	case errors.As(err, &socket), errors.As(err, &name), errors.As(err, &alert):
		return err.Error()
	case errors.As(err, &record):
		return "tls: " + record.Msg
	case errors.Is(err, io.EOF), errors.Is(err, io.ErrUnexpectedEOF), strings.HasSuffix(err.Error(), "server closed idle connection"):
		return io.EOF.Error()
	case strings.HasPrefix(err.Error(), "tls: "), strings.HasPrefix(err.Error(), "remote error: tls: "):
		return err.Error()
	default:
		return "no valid HTTP response"
	}
}
