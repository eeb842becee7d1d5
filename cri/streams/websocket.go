package streams

import (
	"bufio"
	"bytes"
	"errors"
	"io"
	"maps"
	"net"
	"net/http"
	"net/url"
	"sync"

	"golang.org/x/net/websocket"
	"k8s.io/cri-streaming/pkg/streaming/remotecommand"
)

func openWebSocket(conn net.Conn, target *url.URL, header http.Header, s Session) (*channels, error) {
	ws, err := upgradeWebSocket(conn, target, header, remotecommand.StreamProtocolV5Name, remotecommand.StreamProtocolV4Name)
	if err != nil {
		return nil, err
	}
	d := newDemux(ws, 4)
	c := &channels{status: d.readers[remotecommand.StreamErr], close: d.close}
	if s.Stdin != nil {
		halfClose := ws.Config().Protocol[0] == remotecommand.StreamProtocolV5Name
		c.stdin = &wsWriter{ws: ws, channel: remotecommand.StreamStdIn, halfClose: halfClose}
	}
	if s.Stdout != nil {
		c.stdout = d.readers[remotecommand.StreamStdOut]
	}
	if s.Stderr != nil {
		c.stderr = d.readers[remotecommand.StreamStdErr]
	}
	if s.TTY {
		c.resize = &wsWriter{ws: ws, channel: remotecommand.StreamResize}
	}
	d.ignore(remotecommand.StreamStdIn)
	if c.stdout == nil {
		d.ignore(remotecommand.StreamStdOut)
	}
	if c.stderr == nil {
		d.ignore(remotecommand.StreamStdErr)
	}
	d.start()
	return c, nil
}

func upgradeWebSocket(conn net.Conn, target *url.URL, header http.Header, protocols ...string) (*websocket.Conn, error) {
	location := *target
	location.Scheme = map[string]string{"http": "ws", "https": "wss"}[target.Scheme]
	config, err := websocket.NewConfig(location.String(), target.String())
	if err != nil {
		return nil, err
	}
	config.Protocol = protocols
	maps.Copy(config.Header, header)
	answer := &keptConn{Conn: conn}
	ws, err := websocket.NewClient(config, answer)
	if errors.Is(err, websocket.ErrBadStatus) {
		// The handshake error contains neither status nor reason.
		all := io.MultiReader(&answer.read, conn)
		if response, err := http.ReadResponse(bufio.NewReader(all), nil); err == nil {
			return nil, refused(response)
		}
	}
	if err != nil {
		return nil, err
	}
	answer.done = true
	ws.PayloadType = websocket.BinaryFrame
	return ws, nil
}

// keptConn records the data read from a connection until done is set.
type keptConn struct {
	net.Conn
	read bytes.Buffer
	done bool
}

func (c *keptConn) Read(p []byte) (int, error) {
	n, err := c.Conn.Read(p)
	if !c.done {
		c.read.Write(p[:n])
	}
	return n, err
}

// demux distributes a WebSocket's messages by their first byte, the channel.
type demux struct {
	ws      *websocket.Conn
	readers []*io.PipeReader
	writers []*io.PipeWriter
	done    sync.WaitGroup
}

func newDemux(ws *websocket.Conn, n int) *demux {
	d := &demux{ws: ws, readers: make([]*io.PipeReader, n), writers: make([]*io.PipeWriter, n)}
	for i := range n {
		d.readers[i], d.writers[i] = io.Pipe()
	}
	return d
}

func (d *demux) ignore(channel int) { _ = d.readers[channel].Close() }

func (d *demux) start() { d.done.Go(d.pump) }

func (d *demux) pump() {
	for {
		var message []byte
		err := websocket.Message.Receive(d.ws, &message)
		if err == nil && len(message) > 1 && int(message[0]) < len(d.writers) {
			// A closed reader does not stop the other channels.
			_, _ = d.writers[message[0]].Write(message[1:])
		}
		if err != nil {
			for _, w := range d.writers {
				_ = w.Close()
			}
			return
		}
	}
}

func (d *demux) close() {
	_ = d.ws.Close()
	for _, r := range d.readers {
		_ = r.Close()
	}
	d.done.Wait()
}

// wsWriter sends on one channel of a WebSocket.
type wsWriter struct {
	ws        *websocket.Conn
	channel   byte
	halfClose bool // the protocol can send the end of a channel
}

func (w *wsWriter) Write(p []byte) (int, error) {
	if err := websocket.Message.Send(w.ws, append([]byte{w.channel}, p...)); err != nil {
		return 0, err
	}
	return len(p), nil
}

// Close sends the end of the channel if the protocol supports it.
func (w *wsWriter) Close() error {
	if !w.halfClose {
		return nil
	}
	return websocket.Message.Send(w.ws, []byte{remotecommand.StreamClose, w.channel})
}
