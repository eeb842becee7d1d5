package server

import (
	"context"
	"errors"
	"net"
	"net/http"
	"time"
)

// LogSource is an optional ability of a Source.
type LogSource interface {
	// LastLines returns the ends of the logs of a pod's containers. It reads a bounded number of
	// bytes, and returns when ctx is done, also if the file system hangs.
	LastLines(ctx context.Context, pod PodReport) []LogReport
}

// logTimeout bounds the reading of the logs for one page, with the authorization.
const logTimeout = 2 * time.Second

var (
	errRemote    = errors.New("this port has no authentication: it shows log lines only to clients on the node itself")
	errForbidden = errors.New("log lines need permission for nodes/proxy")
	errDebugging = errors.New("access to containers is disabled on this server (enableDebuggingHandlers)")
)

// logAccess returns nil if the client of a request may read logs.
type logAccess func(*http.Request) error

// localOnly allows clients on a loopback address of the node. The name of the host must be an
// address or localhost: a page of another site could otherwise read the logs through a name that
// resolves to loopback.
func localOnly(r *http.Request) error {
	if isLoopback(r.RemoteAddr) && isLoopback(r.Host) {
		return nil
	}
	return errRemote
}

func isLoopback(address string) bool {
	host, _, err := net.SplitHostPort(address)
	if err != nil {
		host = address
	}
	return host == "localhost" || net.ParseIP(host).IsLoopback()
}

// access returns the access to logs through the API: they need Debugging and MayReadLogs.
func (c *APIConfig) access() logAccess {
	return func(r *http.Request) error {
		switch {
		case !c.Debugging:
			return errDebugging
		case c.MayReadLogs == nil || !c.MayReadLogs(r):
			return errForbidden
		}
		return nil
	}
}

// addLogs adds the log lines to the reports of pods, or the reason for their absence.
func addLogs(r *http.Request, s Source, pods []PodReport, access logAccess) {
	source, ok := s.(LogSource)
	if !ok {
		return
	}
	ctx, cancel := context.WithTimeout(r.Context(), logTimeout)
	defer cancel()
	err := access(r.WithContext(ctx))
	for i := range pods {
		if err != nil {
			pods[i].LogsHidden = err.Error()
			continue
		}
		pods[i].Logs = source.LastLines(ctx, pods[i])
	}
}
