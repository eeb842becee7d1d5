package streams

import (
	"bufio"
	"maps"
	"net"
	"net/http"
	"net/url"

	"k8s.io/cri-streaming/pkg/streaming/remotecommand"
	"k8s.io/streaming/pkg/httpstream"
	"k8s.io/streaming/pkg/httpstream/spdy"
)

// openSPDY opens a session of protocol v4 over SPDY.
func openSPDY(conn net.Conn, target *url.URL, header http.Header, s Session) (*channels, error) {
	session, err := upgradeSPDY(conn, target, header, remotecommand.StreamProtocolV4Name)
	if err != nil {
		return nil, err
	}
	c, err := createStreams(session, s)
	if err != nil {
		session.end()
		return nil, err
	}
	c.close = func() { session.end() }
	return c, nil
}

// createStreams opens the streams in the order that the server expects.
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

// createStream opens a stream, unless the session has ended.
func createStream(session httpstream.Connection, header http.Header) (httpstream.Stream, error) {
	select {
	case <-session.CloseChan():
		return nil, ErrLost
	default:
		return session.CreateStream(header)
	}
}

// upgradeSPDY upgrades a connection to SPDY with a protocol above it.
func upgradeSPDY(conn net.Conn, target *url.URL, header http.Header, protocol string) (*spdySession, error) {
	request := &http.Request{
		Method: http.MethodPost, URL: target, Host: target.Host,
		Header: http.Header{
			httpstream.HeaderConnection:      {httpstream.HeaderUpgrade},
			httpstream.HeaderUpgrade:         {spdy.HeaderSpdy31},
			httpstream.HeaderProtocolVersion: {protocol},
		},
	}
	maps.Copy(request.Header, header)
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
	// The response has no body, and the connection continues.
	session, err := spdy.NewClientConnection(&bufferedConn{Conn: conn, reader: reader})
	if err != nil {
		return nil, err
	}
	return &spdySession{Connection: session, conn: conn}, nil
}

type spdySession struct {
	httpstream.Connection
	conn net.Conn
}

// end ends the session and waits for its goroutines. If the session has already ended, it only
// closes the connection: Close would wait forever for a stream that was requested since.
func (s *spdySession) end() {
	select {
	case <-s.CloseChan():
		_ = s.conn.Close()
	default:
		_ = s.Close()
		<-s.CloseChan()
	}
}

// bufferedConn is a connection with a buffer of data already read.
type bufferedConn struct {
	net.Conn
	reader *bufio.Reader
}

func (c *bufferedConn) Read(p []byte) (int, error) { return c.reader.Read(p) }
