package streams

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"k8s.io/cri-streaming/pkg/streaming/portforward"
	"k8s.io/cri-streaming/pkg/streaming/remotecommand"
)

// reportGrace bounds the wait of a Read at the end of data for the server's error report, which has
// its own stream and may arrive later.
const reportGrace = 2 * time.Second

// Forwarding is a port-forward session: connections to ports of one pod. It is safe for concurrent
// use. SPDY has no flow control here: a connection whose data is not read blocks all connections
// of the session, including new ones.
type Forwarding struct {
	session *spdySession
	next    atomic.Int64
}

// Forward opens a session of a URL from the runtime's PortForward. It requires SPDY. ctx bounds
// the opening; Close ends the session.
func (c *Client) Forward(ctx context.Context, url string) (*Forwarding, error) {
	if c.Protocol != SPDY {
		return nil, errors.New("port-forward session: only SPDY supports several connections per session")
	}
	conn, target, err := c.dial(ctx, url)
	if err != nil {
		return nil, fmt.Errorf("port-forward session: %w", err)
	}
	stop := context.AfterFunc(ctx, func() { conn.Close() })
	session, err := upgradeSPDY(conn, target, c.Header, portforward.ProtocolV1Name)
	if !stop() && err == nil {
		session.end()
		err = ErrLost
	}
	if err != nil {
		conn.Close()
		return nil, fmt.Errorf("port-forward session: %w", because(ctx, err))
	}
	return &Forwarding{session: session}, nil
}

// Dial connects to a port of the pod. If the port is not in use, the connection's Read fails.
func (f *Forwarding) Dial(port int) (*PortConn, error) {
	header := http.Header{}
	header.Set(portforward.StreamType, portforward.StreamTypeError)
	header.Set(portforward.PortHeader, strconv.Itoa(port))
	header.Set(portforward.PortForwardRequestIDHeader, strconv.FormatInt(f.next.Add(1), 10))
	report, err := createStream(f.session, header)
	if err != nil {
		return nil, fmt.Errorf("connect to port %d: %w", port, err)
	}
	_ = report.Close() // the client sends no data on it
	header.Set(portforward.StreamType, portforward.StreamTypeData)
	data, err := createStream(f.session, header)
	if err != nil {
		_ = report.Reset()
		return nil, fmt.Errorf("connect to port %d: %w", port, err)
	}
	p := newPortConn(data, report)
	p.closeWrite = data.Close
	p.close = func() {
		_ = data.Reset()
		_ = report.Reset()
		f.session.RemoveStreams(data, report)
	}
	return p, nil
}

// Close ends the session and all its connections.
func (f *Forwarding) Close() error {
	f.session.end()
	return nil
}

// PortForward opens a session for one connection to one port. ctx bounds the opening; closing the
// connection, a *PortConn, ends the session. Over a WebSocket the port must be the first of the
// request, and CloseWrite has no effect.
func (c *Client) PortForward(ctx context.Context, url string, port int) (io.ReadWriteCloser, error) {
	conn, err := c.portForward(ctx, url, port)
	if err != nil {
		return nil, err // not a nil *PortConn in an interface
	}
	return conn, nil
}

func (c *Client) portForward(ctx context.Context, url string, port int) (*PortConn, error) {
	if c.Protocol == WebSocket {
		return c.forwardWebSocket(ctx, url, port)
	}
	f, err := c.Forward(ctx, url)
	if err != nil {
		return nil, err
	}
	conn, err := f.Dial(port)
	if err != nil {
		return nil, errors.Join(err, f.Close())
	}
	conn.close = func() { f.session.end() }
	return conn, nil
}

// PortConn is a connection to a port of a pod. Read and Write may be called concurrently; Close
// ends both.
type PortConn struct {
	data       io.ReadWriter
	closeWrite func() error
	close      func()
	once       sync.Once

	reported chan struct{} // closed at the end of the server's reports
	report   []byte
}

func newPortConn(data io.ReadWriter, report io.Reader) *PortConn {
	p := &PortConn{data: data, reported: make(chan struct{})}
	go func() {
		defer close(p.reported)
		p.report, _ = io.ReadAll(io.LimitReader(report, maxStatus))
	}()
	return p
}

// Read reads the port's data. The error at the end is io.EOF, or a *StatusError if the runtime
// reports that forwarding failed.
func (p *PortConn) Read(b []byte) (int, error) {
	n, err := p.data.Read(b)
	if n > 0 || err == nil {
		return n, nil
	}
	grace := time.NewTimer(reportGrace)
	defer grace.Stop()
	select {
	case <-p.reported:
		if len(p.report) > 0 {
			return 0, &StatusError{Code: http.StatusInternalServerError, Reason: "PortForward", Message: oneLine(p.report)}
		}
	case <-grace.C:
	}
	return 0, err
}

// Write sends data to the port.
func (p *PortConn) Write(b []byte) (int, error) { return p.data.Write(b) }

// CloseWrite sends the end of data to the port.
func (p *PortConn) CloseWrite() error { return p.closeWrite() }

// Close ends the connection and waits for its goroutines.
func (p *PortConn) Close() error {
	p.once.Do(p.close)
	<-p.reported
	return nil
}

func (c *Client) forwardWebSocket(ctx context.Context, url string, port int) (*PortConn, error) {
	conn, target, err := c.dial(ctx, url)
	if err != nil {
		return nil, fmt.Errorf("port-forward session: %w", err)
	}
	stop := context.AfterFunc(ctx, func() { conn.Close() })
	ws, err := upgradeWebSocket(conn, target, c.Header, remotecommand.StreamProtocolV4Name)
	if err != nil {
		stop()
		conn.Close()
		return nil, fmt.Errorf("port-forward session: %w", because(ctx, err))
	}
	d := newDemux(ws, 2)
	d.start()
	err = expectPort(d, port)
	if !stop() && err == nil {
		err = ErrLost
	}
	if err != nil {
		d.close()
		return nil, fmt.Errorf("port-forward session: %w", because(ctx, err))
	}
	p := newPortConn(struct {
		io.Reader
		io.Writer
	}{d.readers[0], &wsWriter{ws: ws}}, d.readers[1])
	p.closeWrite = func() error { return nil }
	p.close = d.close
	return p, nil
}

// expectPort reads the port number, which precedes the data on both channels.
func expectPort(d *demux, port int) error {
	for _, r := range d.readers {
		var number [2]byte
		if _, err := io.ReadFull(r, number[:]); err != nil {
			return ErrLost
		}
		if got := binary.LittleEndian.Uint16(number[:]); int(got) != port {
			return fmt.Errorf("the server confirmed port %d instead of %d", got, port)
		}
	}
	return nil
}
