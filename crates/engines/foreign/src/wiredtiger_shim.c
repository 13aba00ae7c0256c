/*
 * WiredTiger's C API is structures of function pointers, some of them variadic. Each function here is one call, or a fixed
 * sequence of calls, through them. Nothing is kept here but each thread's last error message.
 *
 * Bytes that come back (*value, *key) belong to the cursor and are valid until its next movement or reset.
 */
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <wiredtiger.h>

static __thread char last_message[512];

static int
on_error(WT_EVENT_HANDLER *handler, WT_SESSION *session, int error, const char *message)
{
	(void)handler;
	(void)session;
	(void)error;
	/* The first message of a failure says most; the reader clears it. */
	if (last_message[0] == '\0')
		(void)snprintf(last_message, sizeof(last_message), "%s", message);
	return (0);
}

static int
on_message(WT_EVENT_HANDLER *handler, WT_SESSION *session, const char *message)
{
	(void)handler;
	(void)session;
	(void)message;
	return (0);
}

/* WiredTiger keeps the pointer for as long as the connection lives. */
static WT_EVENT_HANDLER handler = {on_error, on_message, NULL, NULL};

static WT_ITEM
item(const void *data, size_t size)
{
	WT_ITEM it;

	memset(&it, 0, sizeof(it));
	it.data = data;
	it.size = size;
	return (it);
}

const char *
biombo_wt_version(void)
{
	return (wiredtiger_version(NULL, NULL, NULL));
}

const char *
biombo_wt_strerror(int error)
{
	return (wiredtiger_strerror(error));
}

/* The first message since the last call on this thread; empty if there was none. Valid until the next call. */
const char *
biombo_wt_take_message(void)
{
	static __thread char taken[sizeof(last_message)];

	memcpy(taken, last_message, sizeof(taken));
	last_message[0] = '\0';
	return (taken);
}

int
biombo_wt_open(const char *home, const char *config, WT_CONNECTION **connection)
{
	return (wiredtiger_open(home, &handler, config, connection));
}

int
biombo_wt_close(WT_CONNECTION *connection)
{
	return (connection->close(connection, NULL));
}

int
biombo_wt_session(WT_CONNECTION *connection, WT_SESSION **session)
{
	return (connection->open_session(connection, NULL, NULL, session));
}

int
biombo_wt_session_close(WT_SESSION *session)
{
	return (session->close(session, NULL));
}

int
biombo_wt_create(WT_SESSION *session, const char *uri, const char *config)
{
	return (session->create(session, uri, config));
}

int
biombo_wt_checkpoint(WT_SESSION *session, const char *config)
{
	return (session->checkpoint(session, config));
}

int
biombo_wt_compact(WT_SESSION *session, const char *uri)
{
	return (session->compact(session, uri, NULL));
}

int
biombo_wt_log_flush(WT_SESSION *session, const char *config)
{
	return (session->log_flush(session, config));
}

int
biombo_wt_begin(WT_SESSION *session)
{
	return (session->begin_transaction(session, "isolation=snapshot"));
}

int
biombo_wt_commit(WT_SESSION *session)
{
	return (session->commit_transaction(session, NULL));
}

int
biombo_wt_rollback(WT_SESSION *session)
{
	return (session->rollback_transaction(session, NULL));
}

/* Either cursor may be null: from the first key, to the last. Both ends are included. */
int
biombo_wt_truncate(WT_SESSION *session, const char *uri, WT_CURSOR *start, WT_CURSOR *stop)
{
	return (session->truncate(session, start == NULL && stop == NULL ? uri : NULL, start, stop, NULL));
}

int
biombo_wt_cursor(WT_SESSION *session, const char *uri, const char *config, WT_CURSOR **cursor)
{
	return (session->open_cursor(session, uri, NULL, config, cursor));
}

int
biombo_wt_cursor_close(WT_CURSOR *cursor)
{
	return (cursor->close(cursor));
}

int
biombo_wt_reset(WT_CURSOR *cursor)
{
	return (cursor->reset(cursor));
}

int
biombo_wt_put(WT_CURSOR *cursor, const void *key, size_t key_bytes, const void *value, size_t value_bytes)
{
	WT_ITEM k = item(key, key_bytes), v = item(value, value_bytes);

	cursor->set_key(cursor, &k);
	cursor->set_value(cursor, &v);
	return (cursor->insert(cursor));
}

int
biombo_wt_remove(WT_CURSOR *cursor, const void *key, size_t key_bytes)
{
	WT_ITEM k = item(key, key_bytes);

	cursor->set_key(cursor, &k);
	return (cursor->remove(cursor));
}

int
biombo_wt_get(WT_CURSOR *cursor, const void *key, size_t key_bytes, const void **value, size_t *value_bytes)
{
	WT_ITEM k = item(key, key_bytes), v;
	int ret;

	cursor->set_key(cursor, &k);
	if ((ret = cursor->search(cursor)) != 0 || (ret = cursor->get_value(cursor, &v)) != 0)
		return (ret);
	*value = v.data;
	*value_bytes = v.size;
	return (0);
}

int
biombo_wt_search_near(WT_CURSOR *cursor, const void *key, size_t key_bytes, int *compared)
{
	WT_ITEM k = item(key, key_bytes);

	cursor->set_key(cursor, &k);
	return (cursor->search_near(cursor, compared));
}

int
biombo_wt_next(WT_CURSOR *cursor)
{
	return (cursor->next(cursor));
}

int
biombo_wt_prev(WT_CURSOR *cursor)
{
	return (cursor->prev(cursor));
}

int
biombo_wt_here(
    WT_CURSOR *cursor, const void **key, size_t *key_bytes, const void **value, size_t *value_bytes)
{
	WT_ITEM k, v;
	int ret;

	if ((ret = cursor->get_key(cursor, &k)) != 0 || (ret = cursor->get_value(cursor, &v)) != 0)
		return (ret);
	*key = k.data;
	*key_bytes = k.size;
	*value = v.data;
	*value_bytes = v.size;
	return (0);
}

/* The next file of a backup cursor; WT_NOTFOUND after the last one. */
int
biombo_wt_backup_next(WT_CURSOR *cursor, const char **name)
{
	int ret;

	if ((ret = cursor->next(cursor)) != 0)
		return (ret);
	return (cursor->get_key(cursor, name));
}

/* Nine statistics of the connection, in the order of the array below. */
int
biombo_wt_statistics(WT_SESSION *session, int64_t out[9])
{
	static const int wanted[9] = {WT_STAT_CONN_CACHE_BYTES_INUSE, WT_STAT_CONN_CACHE_PAGES_REQUESTED,
	    WT_STAT_CONN_CACHE_READ, WT_STAT_CONN_BLOCK_BYTE_WRITE, WT_STAT_CONN_LOG_BYTES_WRITTEN,
	    WT_STAT_CONN_TXN_CHECKPOINT, WT_STAT_CONN_TXN_CHECKPOINT_TIME_TOTAL,
	    WT_STAT_CONN_TXN_CHECKPOINT_TIME_MAX, WT_STAT_CONN_CACHE_BYTES_DIRTY};
	WT_CURSOR *cursor;
	const char *description, *printable;
	int i, ret, closed;

	if ((ret = session->open_cursor(session, "statistics:", NULL, "statistics=(fast)", &cursor)) != 0)
		return (ret);
	for (i = 0; i < 9 && ret == 0; i++) {
		cursor->set_key(cursor, wanted[i]);
		if ((ret = cursor->search(cursor)) == 0)
			ret = cursor->get_value(cursor, &description, &printable, &out[i]);
	}
	closed = cursor->close(cursor);
	return (ret != 0 ? ret : closed);
}
