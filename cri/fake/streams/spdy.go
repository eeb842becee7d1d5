package streams

import (
	"bufio"
	"net"
	"net/http"
	"net/url"

	"k8s.io/cri-streaming/pkg/streaming/remotecommand"
	"k8s.io/streaming/pkg/httpstream"
	"k8s.io/streaming/pkg/httpstream/spdy"
)

// openSPDY begins a session of protocol v4 over SPDY.
func openSPDY(conn net.Conn, target *url.URL, s Session) (*channels, error) {
	session, err := upgradeSPDY(conn, target, remotecommand.StreamProtocolV4Name)
	if err != nil {
		return nil, err
	}
	c, err := createStreams(session, s)
	if err != nil {
		closeSPDY(session)
		return nil, err
	}
	c.close = func() { closeSPDY(session) }
	return c, nil
}

// createStreams opens one stream after the other, as the server expects them.
func createStreams(session httpstream.Connection, s Session) (*channels, error) {
	c := &channels{}
	var err error
	open := func(kind string, wanted bool) httpstream.Stream {
		if !wanted || err != nil {
			return nil
		}
		var stream httpstream.Stream
		header := http.Header{}
		header.Set(remotecommand.StreamType, kind)
		stream, err = createStream(session, header)
		return stream
	}
	if stream := open(remotecommand.StreamTypeError, true); stream != nil {
		c.status = stream
	}
	if stream := open(remotecommand.StreamTypeStdin, s.Stdin != nil); stream != nil {
		c.stdin = stream
	}
	if stream := open(remotecommand.StreamTypeStdout, s.Stdout != nil); stream != nil {
		c.stdout = stream
	}
	if stream := open(remotecommand.StreamTypeStderr, s.Stderr != nil); stream != nil {
		c.stderr = stream
	}
	if stream := open(remotecommand.StreamTypeResize, s.TTY); stream != nil {
		c.resize = stream
	}
	return c, err
}

// createStream opens a stream. A session that has ended is not asked for one: it
// would count a stream that cannot end any more, and its Close would leave
// goroutines behind that wait for that.
func createStream(session httpstream.Connection, header http.Header) (httpstream.Stream, error) {
	select {
	case <-session.CloseChan():
		return nil, ErrLost
	default:
		return session.CreateStream(header)
	}
}

// upgradeSPDY makes a connection one of SPDY, with a protocol above it.
func upgradeSPDY(conn net.Conn, target *url.URL, protocol string) (httpstream.Connection, error) {
	request := &http.Request{
		Method: http.MethodPost, URL: target, Host: target.Host,
		Header: http.Header{
			httpstream.HeaderConnection:      {httpstream.HeaderUpgrade},
			httpstream.HeaderUpgrade:         {spdy.HeaderSpdy31},
			httpstream.HeaderProtocolVersion: {protocol},
		},
	}
	if err := request.Write(conn); err != nil {
		return nil, err
	}
	reader := bufio.NewReader(conn)
	response, err := http.ReadResponse(reader, request)
	if err != nil {
		return nil, err
	}
	if response.StatusCode != http.StatusSwitchingProtocols {
		return nil, refused(response)
	}
	// The body of a switch is empty and the connection goes on.
	return spdy.NewClientConnection(&bufferedConn{Conn: conn, reader: reader})
}

// closeSPDY ends a session and waits until its connection is down.
func closeSPDY(session httpstream.Connection) {
	_ = session.Close()
	<-session.CloseChan()
}

// bufferedConn is a connection of which something has been read ahead.
type bufferedConn struct {
	net.Conn
	reader *bufio.Reader
}

func (c *bufferedConn) Read(p []byte) (int, error) { return c.reader.Read(p) }
