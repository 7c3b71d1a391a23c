use std::future::poll_fn;
use std::net::TcpListener;
use std::time::Duration;

use tokio::io::AsyncReadExt;
use tokio::time::timeout;

use super::store::Socket as _;
use super::*;

const LONG: Duration = Duration::from_secs(60);

fn connected() -> (Socket, TcpStream) {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
    let address = listener.local_addr().expect("its address");
    let stream = TcpStream::connect(address).expect("a connection");
    stream.set_nonblocking(true).expect("it does not block");
    let other = listener.accept().expect("the other end").0;
    (Socket::new(Stream::Tcp(stream)), other)
}

/// Reads the bytes that have arrived, without waiting for more.
async fn read(socket: &mut Socket) -> Option<Vec<u8>> {
    let mut room = vec![0; PIECE];
    let mut buf = ReadBuf::new(&mut room);
    let read = poll_fn(|cx| match Pin::new(&mut *socket).poll_read(cx, &mut buf) {
        Poll::Ready(done) => Poll::Ready(Some(done)),
        Poll::Pending => Poll::Ready(None),
    });
    read.await?.expect("no error");
    Some(buf.filled().to_vec())
}

/// Waits until the listener is notified of received bytes, and then reads them from the socket.
async fn receive(listener: &mut dyn Listen, socket: &mut Socket) -> Vec<u8> {
    let wire = socket.wire();
    let received = poll_fn(|cx| listener.poll_received(cx, &mut || wire.received()));
    timeout(LONG, received)
        .await
        .expect("received")
        .expect("open");
    read(socket).await.expect("something has come")
}

#[tokio::test]
async fn data_wakes_the_runtime_without_a_listener() {
    let (mut socket, mut other) = connected();
    assert_eq!(read(&mut socket).await, None);
    other.write_all(b"!").expect("written");
    let byte = timeout(LONG, socket.read_u8()).await.expect("received");
    assert_eq!(byte.expect("read"), b'!');
    drop(other);
    let end = timeout(LONG, socket.read(&mut [0]))
        .await
        .expect("received");
    assert_eq!(end.expect("no error"), 0);
}

/// A listener has reported data on a socket. Fails if a read returns this data only after the
/// engine's runtime has also detected it.
#[tokio::test]
async fn received_data_is_read_before_the_runtime_polls() {
    let (mut socket, mut other) = connected();
    other.write_all(b"!").expect("written");
    assert_eq!(read(&mut socket).await, None, "it has not looked");
    socket.wire().received();
    assert_eq!(read(&mut socket).await.as_deref(), Some(&b"!"[..]));
    other.write_all(b"?").expect("written");
    let byte = timeout(LONG, socket.read_u8()).await.expect("received");
    assert_eq!(byte.expect("read"), b'?');
}

/// Fails if the socket is read before the listener is notified, or if the listener is notified only
/// once.
#[tokio::test]
async fn a_listener_is_notified_before_the_data_is_read() {
    let (mut socket, mut other) = connected();
    let wire = socket.wire();
    wire.leave_to_listener(true);
    // The data arrives before a listener exists.
    other.write_all(b"one").expect("written");
    let mut listener = wire.listen().expect("a runtime");
    assert_eq!(read(&mut socket).await, None);
    assert!(
        receive(&mut *listener, &mut socket)
            .await
            .starts_with(b"one")
    );
    for word in [b"two", b"six"] {
        assert_eq!(read(&mut socket).await, None);
        other.write_all(word).expect("written");
        assert_eq!(receive(&mut *listener, &mut socket).await, word);
    }
    wire.leave_to_listener(false);
    other.write_all(b"!").expect("written");
    let byte = timeout(LONG, socket.read_u8()).await.expect("received");
    assert_eq!(byte.expect("read"), b'!');
}

/// A read that does not fill the buffer shows that no more data is available now. The socket is
/// then not read again until the listener is notified. Fails if the end of the connection goes
/// unnoticed.
#[tokio::test]
async fn the_end_of_a_connection_is_read_after_its_data() {
    let (mut socket, mut other) = connected();
    let wire = socket.wire();
    wire.leave_to_listener(true);
    let mut listener = wire.listen().expect("a runtime");
    other.write_all(b"last").expect("written");
    drop(other);
    for came in [&b"last"[..], b""] {
        assert_eq!(receive(&mut *listener, &mut socket).await, came);
    }
}

/// Fails if a listener keeps a connection open after the store has dropped its socket.
#[tokio::test]
async fn a_listener_is_notified_when_the_store_disconnects() {
    let (socket, mut other) = connected();
    let mut listener = socket.wire().listen().expect("a runtime");
    drop(socket);
    let received = poll_fn(|cx| listener.poll_received(cx, &mut || {}));
    timeout(LONG, received)
        .await
        .expect("received")
        .expect("reported");
    assert_eq!(other.read(&mut [0]).expect("no error"), 0);
}

/// Fails if a full send buffer blocks reading. The other end sends everything back, and does not
/// read while its writes block. So both directions block repeatedly.
#[tokio::test]
async fn a_full_send_buffer_does_not_block_reading() {
    for listens in [false, true] {
        let (mut socket, mut other) = connected();
        let wire = socket.wire();
        wire.leave_to_listener(listens);
        let mut listener = wire.listen().expect("a runtime");
        std::thread::spawn(move || {
            let mut back = other.try_clone().expect("the same stream");
            io::copy(&mut other, &mut back)
        });
        let sent: Vec<u8> = (0..=u8::MAX).cycle().take(32_000_000).collect();
        let (mut done, mut got) = (0, Vec::new());
        let moving = poll_fn(|cx| {
            while done < sent.len()
                && let Poll::Ready(count) = Pin::new(&mut socket).poll_write(cx, &sent[done..])
            {
                done += count.expect("written");
            }
            while listens
                && listener
                    .poll_received(cx, &mut || wire.received())
                    .is_ready()
            {}
            loop {
                let mut room = [0; PIECE];
                let mut buf = ReadBuf::new(&mut room);
                if Pin::new(&mut socket).poll_read(cx, &mut buf).is_pending() {
                    return Poll::Pending;
                }
                got.extend_from_slice(buf.filled());
                if got.len() == sent.len() {
                    return Poll::Ready(());
                }
            }
        });
        timeout(LONG, moving)
            .await
            .expect("reading or writing waits for ever");
        assert!(got == sent, "something else came");
    }
}
